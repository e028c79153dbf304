"""A matplotlib backend that shows figures in the cell's output.

Runs on the cluster; imported after matplotlib. `plt.show()` and the end of the cell show and close
the figures.
"""

import builtins
import io

from matplotlib._pylab_helpers import Gcf
from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["FigureCanvas", "png", "show"]


def show(*_args: "Any", **_options: "Any") -> None:
    """Show all open figures in order, and close them."""
    display = builtins.display  # type: ignore[attr-defined]
    try:
        for manager in Gcf.get_all_fig_managers():
            display(manager.canvas.figure)
    finally:
        Gcf.destroy_all()


def png(figure: "Any") -> bytes:
    """Return the figure as a PNG image, cropped and in its own colors as in a notebook."""
    if figure.canvas is None or not hasattr(figure.canvas, "print_png"):
        FigureCanvas(figure)
    stream = io.BytesIO()
    figure.savefig(
        stream,
        format="png",
        bbox_inches="tight",
        dpi=figure.dpi,
        facecolor=figure.get_facecolor(),
        edgecolor=figure.get_edgecolor(),
    )
    return stream.getvalue()
