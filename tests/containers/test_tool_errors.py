"""Container tools' errors in a job's log, explained with a hint. They are recorded from Docker
20.10 and 28, Apptainer 1.4.5, Charliecloud 0.31 and enroot 4.1, and taken from the source of podman
and pyxis."""

import pytest

from jupyter_slurm.containers import runtime_named
from jupyter_slurm.containers.builders import builder_for, explained
from jupyter_slurm.containers.builders.script import read_failure, stopped_at

_DOCKER = "docker: Error response from daemon: "
_PYXIS = "slurmstepd: error: pyxis: "
_FATAL = "FATAL:   "
_PULL = "Unable to handle docker://r/x:1 uri: failed to get checksum for docker://r/x:1: "
_OPEN = "While checking container encryption: could not open image /x.sif: "
_USAGE = "Usage:\n  x\n\nRun 'apptainer --help' for more detailed usage information."
_CH = "ch-run[12]: error: "


@pytest.mark.parametrize(
    ("runtime", "log", "words", "hint"),
    [
        ("docker", _DOCKER + "manifest for a/b:1 not found: manifest unknown.", "", "tag"),
        (
            "docker",
            _DOCKER + "pull access denied for a, repository does not exist or may require 'docker "
            "login': denied: requested access is denied",
            "",
            "docker login",
        ),
        ("docker", _DOCKER + 'Get "https://h/v2/": dial tcp: no such host.', "", "mirror"),
        (
            "docker",
            _DOCKER + 'Get "https://h/v2/": x509: certificate signed by unknown authority.',
            "not trust",
            "administrators",
        ),
        ("docker", _DOCKER + "toomanyrequests: You have reached your pull rate limit.", "", "wait"),
        (
            "docker",
            "docker: failed to register layer: write /x: no space left on device.",
            "disk",
            "prune",
        ),
        ("docker", _DOCKER + "could not select device driver.", "GPUs", "toolkit"),
        ("docker", "docker: Cannot connect to the Docker daemon. Is it running?", "", "--exclude"),
        (
            "docker",
            "docker: permission denied while trying to connect to unix:///x: dial unix /x.",
            "not allowed to use",
            "sudo-docker",
        ),
        ("podman", "sh: line 88: podman: command not found", "tool", "--runtime"),
        ("docker", "[FATAL tini (7)] exec /bin/sh failed: Exec format error", "", "uname -m"),
        ("podman", "Error: reading manifest 1 in a: manifest unknown", "registry", "tag"),
        ("docker", _DOCKER + "a new one.", "a new one.", "manual"),
        ("apptainer", _FATAL + _OPEN + "lstat /x.sif: no such file or directory", "", "path"),
        ("apptainer", _FATAL + "mount source /no doesn't exist", "", "--mount"),
        ("apptainer", _FATAL + _PULL + "dial tcp: lookup r: no such host", "registry", "mirror"),
        ("apptainer", _FATAL + _PULL + "reading manifest 1 in r/x: manifest unknown", "", "tag"),
        ("apptainer", _FATAL + _OPEN + "the image's architecture (arm64)", "", "uname -m"),
        ("apptainer", _FATAL + _OPEN + "image format not recognized", "incomplete", "again"),
        ("apptainer", _FATAL + "stat /bin/sh: no such file or directory", "", "python3"),
        ("apptainer", _FATAL + "fuse: failed to open /dev/fuse: Permission denied", "", "fuse"),
        ("apptainer", "env: 'apptainer': No such file or directory", "tool", "--module"),
        (
            "apptainer",
            f'Error for command "exec": unknown flag: --mount\n\n{_USAGE}',
            "unknown flag: --mount",
            "manual",
        ),
        ("charliecloud", _CH + "can't stat: /x: No such file or directory (c.c:2 2)", "", "doctor"),
        ("charliecloud", _CH + "can't mkdir: /a: Read-only file system (a.c:4 3)", "", "/mnt"),
        ("charliecloud", _CH + "too many FUSE errors; giving up (ch_fuse.c:252)", "", "folder"),
        ("charliecloud", _CH + "can't execve(2): /bin/sh: Exec format error (c.c:4)", "", "uname"),
        (
            "charliecloud",
            _CH + "can't init user+mount namespaces: Operation not permitted (x.c:1 1)",
            "not permitted.",
            "administrators",
        ),
        ("charliecloud", "env: 'ch-run': No such file or directory", "tool", "--runtime"),
        ("charliecloud", "x/slurm_script: line 84: ch-run: command not found", "", "--runtime"),
        (
            "pyxis",
            f"{_PYXIS}failed to import docker image: ubuntu:20.04\n"
            f"{_PYXIS}    curl: (6) Could not resolve host: registry-1.docker.io\n"
            "slurmstepd: error: spank: required plugin spank_pyxis.so: task_init() failed",
            "reach the registry: curl: (6)",
            "mirror",
        ),
        (
            "pyxis",
            f"{_PYXIS}    [ERROR] URL https://nvcr.io/v2/a returned error code: 401 Unauthorized",
            "denied access: URL https",
            "~/.config/enroot/.credentials",
        ),
        ("pyxis", f"{_PYXIS}    [ERROR] No such file or directory: /x", "", "mounted on the nodes"),
        (
            "pyxis",
            f"{_PYXIS}    FATAL ERROR: write_file: failed, because No space left on device",
            "disk is full",
            "enroot remove",
        ),
        (
            "pyxis",
            f"{_PYXIS}    enroot-nsenter: failed to create user namespace: No space left on device",
            "does not let users",
            "user namespaces",
        ),
        (
            "pyxis",
            f'{_PYXIS}error: a container with name "pyxis_gone" does not exist, and '
            "--container-image is not set",
            "does not have this container",
            "--nodelist",
        ),
        ("pyxis", "srun: unrecognized option '--container-image=/x'", "pyxis", "--runtime"),
    ],
)
def test_failure_of_a_tool_is_quoted_with_a_hint(
    runtime: str, log: str, words: str, hint: str
) -> None:
    log = f"a banner of the node\n{log}\n"
    if runtime in ("docker", "podman"):
        log += "\nRun 'docker run --help' for more information\n"
        log += "jupyter-slurm: the container did not start: exit code 125 of docker run\n"
    explained = runtime_named(runtime).explain(log)
    assert explained is not None
    assert words in explained.sentence
    assert hint in explained.advice
    assert ".c:" not in explained.sentence
    assert "\n" not in explained.sentence


@pytest.mark.parametrize(
    ("runtime", "log"),
    [
        ("docker", _DOCKER + "no space left on device\n"),
        ("apptainer", "Traceback\nValueError: FATAL:   x\nenv: no\n"),
        ("apptainer", 'psql: FATAL:  role "u" does not exist\n'),
        ("apptainer", "FATAL:   x\n" + "a line\n" * 5),
        ("charliecloud", "Traceback\nValueError: error: ch-run\n"),
        ("enroot", "Traceback\nFileNotFoundError: No such file or directory\n"),
        ("pyxis", "Traceback\nValueError: error: pyxis\n"),
        ("pyxis", "pyxis: importing docker image: x\npyxis: imported docker image: x\n"),
    ],
)
def test_failure_of_the_program_is_not_attributed_to_the_tool(runtime: str, log: str) -> None:
    assert runtime_named(runtime).explain(log) is None


@pytest.mark.parametrize(
    ("runtime", "line", "words", "hint"),
    [
        ("docker", "write /data/x: no space left on device", "/data/x", "prune"),
        (
            "charliecloud",
            "error: unauthorized or not in registry: a.org/b:1",
            "registry: a.org/b:1.",
            "CH_IMAGE_PASSWORD",
        ),
        (
            "charliecloud",
            "error: GET failed: HTTPSConnectionPool(host='a.org', port=443): Max retries exceeded "
            "(Caused by NewConnectionError('<x object at 0x7f3>: Failed to establish a new "
            "connection: [Errno 111] Connection refused'))",
            "GET failed: a.org:443: Connection refused.",
            "mirror",
        ),
        (
            "charliecloud",
            "error: GET failed: HTTPSConnectionPool(host='a.org', port=443): Max retries exceeded "
            "(Caused by SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] "
            "certificate verify failed: self-signed certificate (_ssl.c:992)')))",
            "not trust the registry's certificate",
            "administrators",
        ),
        ("charliecloud", "error: layer 1: No space left on device", "full", "TMPDIR"),
        ("charliecloud", "sh: 9: ch-convert: not found", "tool", "--runtime"),
    ],
)
def test_failed_build_is_explained(runtime: str, line: str, words: str, hint: str) -> None:
    end = "jupyter-slurm: a.org/b:1 was not created by x. It ended with exit code 1 while building"
    explained = builder_for(runtime).explain(f"pulling a.org/b:1\n{line}\nhint: no\n{end}\n")
    assert explained is not None
    assert words in explained.sentence
    assert hint in explained.advice


@pytest.mark.parametrize(
    ("runtime", "log"),
    [
        ("docker", "Error: denied\nThe command '/bin/sh -c x' returned a non-zero code: 3\n"),
        ("podman", 'Error: denied\nError: building at STEP "RUN mkdir /x": exit status 3\n'),
        ("charliecloud", "error: No space left\nerror: build failed: RUN command exited with 3\n"),
        ("apptainer", "FATAL:   While performing build: while running engine: exit status 3\n"),
    ],
)
def test_failed_command_of_a_recipe_is_not_attributed_to_the_tool(runtime: str, log: str) -> None:
    assert builder_for(runtime).explain(log) is None


@pytest.mark.parametrize("runtime", ["docker", "apptainer", "enroot"])
def test_full_disk_is_detected_in_a_commands_output(runtime: str) -> None:
    said = "pip: [Errno 28] No space left on device"
    end = "The command returned a non-zero code: 1\n"
    found = builder_for(runtime).explain(f"\x1b[91m{said}\x1b[0m\n{end}")
    assert found is not None
    assert found.sentence.endswith(f" is full: {said}.")
    assert builder_for(runtime).explain(said + "\nline" * 30 + f"\n{end}") is None


@pytest.mark.parametrize(
    "log",
    [
        "Step 4/6 : RUN ls /y\n ---> 33f5fb2b92ff\nStep 5/6 : RUN ls /x\n ---> Running in b3a6\n"
        "\x1b[91mls: \x1b[0mcannot\n\x1b[0mThe command '/bin/sh -c ls' returned a non-zero code: 2",
        "STEP 2/3: RUN ls /x\nError: building at STEP",
        "------\n > [stage-0 2/3] RUN ls /x:\n0.1 ls: cannot access",
        "  1. FROM base\n  2. ENV A='1'\n  6. RUN.F ls /x\nls: cannot access\nerror: build failed",
        "+ echo fine\nfine\n+ RUN ls /x\nls: cannot\nFATAL:   While",
    ],
)
def test_last_recipe_line_is_found_in_the_log_of_a_failed_build(log: str) -> None:
    assert stopped_at(log) == "RUN ls /x"
    assert stopped_at("no such luck") is None


_PYXIS_END = """jupyter-slurm: the setup has ended with exit code 1
slurmstepd-n1: error: pyxis: child 27397 failed with error code: 1
slurmstepd-n1: error: pyxis:     [ERROR] No such file or directory: /x/made/image.sqsh
srun: error: n1: task 0: Exited with exit code 1
"""


@pytest.mark.parametrize("end", ["", _PYXIS_END], ids=["enroot", "pyxis"])
@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("first\ncp: cannot stat '/x': No such file\n", "cp: cannot stat '/x': No such file"),
        ("first\n+ false\n", None),
        ("", None),
    ],
)
def test_failed_image_script_is_explained_by_its_last_line(
    end: str, output: str, words: str | None
) -> None:
    log = (
        f"created 2 hardlinks\njupyter-slurm: building\n{output}jupyter-slurm: still building "
        f"after 10 s\n{end}jupyter-slurm: x was not created by enroot. It ended with exit code 1 "
        "while building; see its output above.\n"
    )
    failure = read_failure(log)
    assert failure is not None
    found = explained(failure, log)
    assert (found and found.sentence) == (words and f"The output ends with: {words}.")


_DENIED = ("[INFO] Querying registry for permission grant", "[INFO] Authenticating with user: <x>")


@pytest.mark.parametrize(
    ("runtime", "start", "end"),
    [
        ("enroot", "", ""),
        ("pyxis", f"{_PYXIS}    ", f"\n{_PYXIS}child 7 failed with error code: 1"),
    ],
)
def test_enroot_failure_without_a_message_is_reported_as_denied_access(
    runtime: str, start: str, end: str
) -> None:
    """Seen with enroot 4.1.2 without a password, at a registry that requires a password (Basic)."""
    log = "\n".join(f"{start}{line}" for line in _DENIED)
    found = runtime_named(runtime).explain(log + end)
    assert found is not None
    assert "denied access" in found.sentence
    assert ".credentials" in found.advice
    granted = runtime_named(runtime).explain(f"{log}\n{start}[INFO] Fetching image manifest{end}")
    assert granted is None or "denied" not in granted.sentence
