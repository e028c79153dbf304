"""An IPython shell without a kernel.

Runs on the cluster, with IPython 7 and later; imported after IPython. It translates magics, formats
values and tracebacks, and receives displays. `runner_cell.py` runs the cell.
"""

import atexit
import os
import shutil
import tempfile

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.profiledir import ProfileDir
from traitlets import Type
from traitlets.config import Config

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from typing import Any, Dict, List, Optional

    import runner_display


class Publisher(DisplayPublisher):
    """The publisher of `IPython.display`."""

    def publish(  # type: ignore[override,unused-ignore]
        self,
        data: "Dict[str, Any]",
        metadata: "Optional[Dict[str, Any]]" = None,
        source: "Any" = None,
        transient: "Optional[Dict[str, Any]]" = None,
        update: bool = False,
        **_options: "Any",
    ) -> None:
        kind = "update_display_data" if update else "display_data"
        display_id = (transient or {}).get("display_id")
        shell: "Any" = self.shell
        shell.publisher.display((data, metadata or {}), display_id, kind)

    def clear_output(self, wait: bool = False) -> None:
        shell: "Any" = self.shell
        shell.publisher.clear(wait)


class ResultHook(DisplayHook):
    """The display hook for code that a magic such as `%%time` runs."""

    def write_output_prompt(self) -> None:
        """Do nothing, because a cell of a job does not show prompts."""

    def write_format_data(
        self, format_dict: "Dict[str, Any]", md_dict: "Optional[Dict[str, Any]]" = None
    ) -> None:
        shell: "Any" = self.shell
        shell.publisher.result((format_dict, md_dict or {}))

    def finish_displayhook(self) -> None:
        """Do nothing, because no text follows a value."""


class Shell(InteractiveShell):
    """The shell. `start` sets `publisher`."""

    display_pub_class = Type(Publisher)
    displayhook_class = Type(ResultHook)

    def init_virtualenv(self) -> None:
        """Do nothing, because the shell must not change sys.path."""

    def enable_gui(self, gui: "Any" = None) -> None:
        """Do nothing, because a job does not have a screen."""

    def ask_exit(self) -> None:
        raise SystemExit(0)

    def _showtraceback(self, etype: "Any", evalue: "Any", stb: "List[str]") -> None:
        if self.rendering is not None:
            self.rendering[:] = stb
        else:
            self.publisher.error(etype.__name__, str(evalue), stb)

    def show_usage_error(self, exc: "Any") -> None:
        """Show the error of an unknown or misused magic in one sentence."""
        self._showtraceback(type(exc), exc, ["UsageError: %s" % exc])

    def render(self, etype: "Any", evalue: "Any", trace: "Any") -> "List[str]":
        """Return the lines of a colored traceback; [] if IPython has shown the error."""
        self.rendering = []
        try:
            self.showtraceback((etype, evalue, trace), tb_offset=0)
            return self.rendering
        finally:
            self.rendering = None

    rendering: "Optional[List[str]]" = None
    publisher: "Any" = None


def start(
    publisher: "runner_display.Publisher", module: "types.ModuleType", cell_name: str
) -> "Any":
    """Create the shell of this process with the cell's namespace."""
    # Without this variable, Plotly sends 4 MB of HTML with each figure, except to ipykernel's
    # shell.
    os.environ.setdefault("PLOTLY_RENDERER", "plotly_mimetype")
    folder = tempfile.mkdtemp(prefix="ipython-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    config = Config()
    config.HistoryManager.enabled = False
    profiles: "Any" = ProfileDir
    shell: "Any" = Shell.instance(
        config=config,
        user_module=module,
        ipython_dir=folder,
        profile_dir=profiles.create_profile_dir(folder),
    )
    shell.publisher = publisher
    label = cell_name.rpartition(" ")[0] + " "
    shell.compile.format_code_name = lambda file: (
        (label.strip(), file[len(label) :]) if file.startswith(label) else None
    )
    for ours in ("exit", "quit"):  # IPython's end the shell; Python's raise SystemExit
        module.__dict__.pop(ours, None)
    shell.display_formatter.formatters["image/png"].for_type_by_name(
        "matplotlib.figure", "Figure", _figure_png
    )
    return shell


def _figure_png(figure: "Any") -> bytes:
    import runner_figures  # imports matplotlib

    return runner_figures.png(figure)
