"""A stand-in for `srun` with pyxis and for `enroot`, which no distribution packages.

It contains no NVIDIA code. It accepts the same options and values (pyxis 0.24, enroot 4.1), rejects
all others with the same messages, unpacks an image in the same way, and enters it with
Charliecloud's ch-run. The real srun runs the step. Where a site's configuration decides, it behaves
in the way that is less convenient for jupyter-slurm.

    enroot_standin.py FOLDER srun|enroot WORDS...

FOLDER contains `data` (containers), `tasks` (process IDs in steps' containers), `locks` (of
containers), `registry` (an image's NAME, with `%` for each slash -> SquashFS; `NAME.address` -> the
address of a real registry with that name), `cache` (images from real registries) and `srun` (the
real one). `scope_job` exists if the site has `container_scope=job` (pyxis' wiki, Setup; 0.9): then
containers' names start with the job's ID, and the site's epilog removes them. With `writable`,
containers are writable unless an option disables it.
"""

from __future__ import annotations

import fcntl
import json
import netrc
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from urllib.error import HTTPError
from urllib.request import HTTPBasicAuthHandler, HTTPPasswordMgrWithDefaultRealm, build_opener
from urllib.request import Request as Asking

VALUES = ("image", "mounts", "workdir", "name", "save", "env", "unshare")
SWITCHES = ("mount-home", "remap-root", "entrypoint", "writable")
HELP = "".join(f"      --container-{name}=[pyxis]\n" for name in VALUES)


class Failed(Exception):
    """The tool's error message, as lines."""


@dataclass
class Asked:
    """The options of pyxis."""

    values: dict[str, str] = field(default_factory=dict)
    switches: dict[str, bool] = field(default_factory=dict)

    def take(self, word: str) -> bool:
        """Parse an option. Return False if it is not for pyxis. Raise Failed if pyxis does not know
        it."""
        name, equals, value = word.partition("=")
        if "container-" not in name:
            return False
        bare = name.removeprefix("--").removeprefix("no-").removeprefix("container-")
        if bare in VALUES and equals and value and not name.startswith("--no-"):
            if self.values.setdefault(bare, value) != value:
                raise Failed(f"srun: error: pyxis: {name} specified multiple times")
        elif (bare in SWITCHES or word == "--container-readonly") and not equals:
            on = not name.startswith("--no-") and bare != "readonly"
            bare = "writable" if bare == "readonly" else bare
            if self.switches.setdefault(bare, on) != on:
                raise Failed(f"srun: error: pyxis: both {name} and its contrary were specified")
        else:
            raise Failed(f"srun: unrecognized option '{word}'\nTry \"srun --help\"")
        return True


def main(argv: list[str]) -> None:
    folder, program, *words = Path(argv[1]), *argv[2:]
    run = {"srun": srun, "enroot": enroot, "step": step}[program]
    try:
        run(folder, words)
    except Failed as failed:
        print(failed, file=sys.stderr)
        sys.exit(255 if program == "srun" else 1)


# --- srun, and pyxis in its step


def srun(folder: Path, words: list[str]) -> NoReturn:
    real = str(folder / "srun")
    if words == ["--help"]:
        print(subprocess.run([real, "--help"], capture_output=True, text=True, check=True).stdout)
        print(HELP)
        sys.exit()
    end = next((at for at, word in enumerate(words) if word[:1] != "-" or word == "--"), len(words))
    asked = Asked()
    own = [word for word in words[:end] if not asked.take(word)]
    if not asked.values:
        os.execv(real, ["srun", *words])
    mounts_of_pyxis(asked.values.get("mounts", ""))
    ours = [word for word in words[:end] if word not in own]
    inside = [sys.executable, "-IS", __file__, str(folder), "step", *ours, "--"]
    program = words[end + 1 :] if words[end:][:1] == ["--"] else words[end:]
    os.execv(real, ["srun", *own, *inside, *program])


def mounts_of_pyxis(value: str) -> Iterator[tuple[str, str]]:
    """Parse mounts like args.c, without escapes. Raise Failed if a mount is invalid."""
    found = []
    for entry in value.split(",") if value else []:
        src, *rest = entry.split(":", 2)
        dst = rest[0] if rest else src
        flags = rest[1].split("+") if len(rest) > 1 else []
        if not src.startswith(("/", ".")) or not dst.startswith(("/", ".")):
            raise Failed(f"srun: error: pyxis: --container-mounts: invalid format: {entry}")
        if not set(flags) <= {"ro", "rw", "rprivate", "rslave"}:
            raise Failed(f"srun: error: pyxis: could not add mount entry: {src}:{dst}")
        # Before 0.24, bash echoes the paths into an fstab.
        if re.search(r'[\s"$`\\]', src + dst):
            raise Failed(f"srun: error: pyxis: a path that bash would change: {entry}")
        found.append((src, dst))
    return iter(found)


def step(folder: Path, words: list[str]) -> NoReturn:
    """Do the work of pyxis in slurmstepd, before the program of the step starts."""
    end = words.index("--")
    asked = Asked()
    for word in words[:end]:
        assert asked.take(word)
    try:
        container = in_step(folder, asked)
    except Failed as failed:
        lines = "\n".join(f"slurmstepd: error: pyxis: {line}" for line in str(failed).split("\n"))
        raise Failed(lines) from failed
    mounts = list(mounts_of_pyxis(asked.values.get("mounts", "")))
    for src, _ in mounts:
        if not Path(src).exists():
            raise Failed(
                f"slurmstepd: error: pyxis: --container-mounts: source path does not exist: {src}"
            )
    command = words[end + 1 :]
    if asked.switches.get("entrypoint", True):
        command = ["/bin/sh", "-c", 'echo BANNER; exec "$@"', "entrypoint", *command]
    mounts += mounts_of_pmi()
    if asked.switches.get("mount-home", False):
        mounts.insert(0, (os.environ["HOME"], os.environ["HOME"]))
    writable = asked.switches.get("writable", (folder / "writable").exists())
    assert writable, "the container cannot be written"
    argv = entered(container, mounts, command, workdir=asked.values.get("workdir", "/tmp"))
    if asked.switches.get("remap-root", True):
        argv[1:1] = ["--uid=0", "--gid=0"]
    if "save" not in asked.values:
        os.execvp("ch-run", argv)
    code = subprocess.run(argv, check=False).returncode
    # This happens after any exit code of the program, and does not change the step's.
    if Path(asked.values["save"]).parent.exists():
        pack(container, asked.values["save"])
        print("pyxis: exported container", container.name, file=sys.stderr)
    else:
        said = "Could not create destination file: No such file or directory"
        print(f"slurmstepd: error: pyxis:     {said}", file=sys.stderr)
    sys.exit(code)


def mounts_of_pmi() -> list[tuple[str, str]]:
    """Return the mounts of the hook 50-slurm-pmi.sh, which sites have to enable."""
    server = os.environ.get("PMIX_SERVER_TMPDIR", "")
    job, number = os.environ["SLURM_JOB_ID"], os.environ["SLURM_STEP_ID"]
    system = os.environ.get("PMIX_SYSTEM_TMPDIR") or os.environ.get("TMPDIR", "/tmp")
    names = [f"spmix_appdir_{one}{job}.{number}" for one in (f"{os.getuid()}_", "")]
    paths = [server, *(f"{system}/{name}" for name in names)] if server else []
    return [(path, path) for path in paths if Path(path).is_dir()]


def in_step(folder: Path, asked: Asked) -> Path:
    """Return the container, which all tasks of a step on one node share."""
    job, number = os.environ["SLURM_JOB_ID"], os.environ["SLURM_STEP_ID"]
    name, _, flag = asked.values.get("name", "").partition(":")
    if flag not in {"", "auto", "create", "exec", "no_exec"}:
        raise Failed(f"--container-name: flag must not be {flag}")
    # Each node of a step has its own container, and the test's nodes are one machine.
    node = os.environ["SLURMD_NODENAME"]
    of_job = f"{job}_" if (folder / "scope_job").exists() else ""
    container = folder / "data" / f"pyxis_{of_job}{name or f'{job}.{number}.{node}'}"
    with locked(folder, container.name):
        if flag == "create" and container.exists():
            raise Failed(
                'error: "create" flag was passed to --container-name but the container already '
                "exists"
            )
        if not container.exists():
            made_in_step(folder, asked, container)
        if not name:  # the fixture removes it with the last process
            with (folder / "tasks" / container.name).open("a") as tasks:
                print(os.getpid(), file=tasks)
    return container


@contextmanager
def locked(folder: Path, name: str) -> Iterator[None]:
    with (folder / "locks" / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def made_in_step(folder: Path, asked: Asked, container: Path) -> None:
    image = asked.values.get("image")
    if image is None:
        raise Failed(
            f'error: a container with name "{container.name}" does not exist, and '
            "--container-image is not set"
        )
    try:
        if not image.startswith(("/", ".")):
            print(f"pyxis: importing docker image: {image}", file=sys.stderr)
        unpack(image_file(folder, image), container)
    except Failed as failed:
        what = "create container filesystem for" if image[0] in "/." else "import docker"
        raise Failed(f"failed to {what} image: {image}\n    {failed}") from failed


# --- enroot


_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONF = """. "$1"
! declare -f mounts >/dev/null || mounts
declare -f rc >/dev/null || echo no rc
"""


def enroot(folder: Path, words: list[str]) -> None:
    verb, *rest = words
    data = folder / "data"
    match verb, *rest:
        case ["version"]:
            print("4.1.2")
        case ["list"]:
            print("\n".join(sorted(path.name for path in data.iterdir())))
        case ["import", "--output", file, uri] if uri.startswith("docker://"):
            shutil.copyfile(image_file(folder, uri.removeprefix("docker://")), file)
        case ["create", "--name", name, file]:
            print("[INFO] Extracting squashfs filesystem...", file=sys.stderr)
            unpack(image_file(folder, file), data / name)
        case ["remove", "--force" | "-f", *names] if names:
            for name in names:
                shutil.rmtree(data / name)
        case ["start", "--conf", conf, "--rw", name, *command]:
            as_root = {"yes": ("--uid=0", "--gid=0"), "no": ()}[os.environ["ENROOT_REMAP_ROOT"]]
            start(data / name, conf, command, "", *as_root)
        case ["start", "--root", "--rw", "--conf", conf, "--mount", mount, name, *command]:
            start(data / name, conf, command, mount, "--uid=0", "--gid=0")
        case ["export", "--output", file, name]:
            pack(data / name, file)
        case ["exec", "--env", variable, pid, *command] if command:
            join(variable, pid, command)
        case _:
            raise Failed(f"Usage: enroot {verb}: {rest}")


def start(
    container: Path, conf: str, command: list[str], mount: str = "", *as_root: str
) -> NoReturn:
    """Run a command in a container. Pass on only the tool's own variables."""
    if not container.is_dir():
        raise Failed(f"[ERROR] No such file or directory: {container}")
    asked = subprocess.run(
        ["bash", "-c", _CONF, "bash", conf],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.splitlines()
    source, point, _ = mount.split(":") if mount else ("", "", "")
    mounts = [(source, point)] if mount else []
    for line in asked:
        # a line "no rc" fails here, since the image's entrypoint would run without `rc`
        src, dst, flags = line.split(" ")
        assert flags.startswith("x-create=auto,rbind")
        src = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), src)
        if not Path(src).exists():
            raise Failed(f"enroot-mount: failed to mount: {src} at {dst}: No such file")
        mounts.append((src, dst))
    if os.environ["ENROOT_MOUNT_HOME"] == "yes":
        mounts.insert(0, (os.environ["HOME"], os.environ["HOME"]))
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "USER") if name in os.environ}
    os.environ.clear()
    os.environ.update(kept)
    run, *rest = entered(container, mounts, command, workdir="/")
    os.execvp(run, [run, *as_root, *rest])


def join(variable: str, pid: str, command: list[str]) -> NoReturn:
    """Enter a container like src/runtime.sh, with the process's initial environment, one variable
    per line."""
    environ = Path(f"/proc/{pid}/environ")
    if not pid.isdigit() or not environ.exists():
        raise Failed(f"[ERROR] Process not found: {pid}")
    lines = environ.read_text().replace("\0", "\n").splitlines()
    told = dict(line.split("=", 1) for line in lines if re.match(r"[A-Za-z_]\w*=", line))
    told[variable] = os.environ.get(variable, "")
    words = [f"--target={pid}", "--user", "--mount", "--preserve-credentials"]
    entered = ["nsenter", *words, f"--wd=/proc/{pid}/cwd", "--", *command]
    os.execvpe("nsenter", entered, told)


# --- enroot and pyxis


def image_file(folder: Path, image: str) -> Path:
    """Return the SquashFS file of a path or of a name in the registry. Raise Failed with the tool's
    error."""
    if image.startswith(("/", ".")):
        if not Path(image).is_file():
            raise Failed(f"[ERROR] No such file or directory: {image}")
        return Path(image)
    if not re.fullmatch(r"([^/#]+#)?[a-z0-9/._-]+(:[\w.-]+)?", image):
        raise Failed(f"[ERROR] Invalid image reference: docker://{image}")
    known = folder / "registry" / image.replace("/", "%")
    registry, _, name = image.rpartition("#")
    address = folder / "registry" / f"{registry}.address"
    if address.exists():
        return fetched(folder, registry, address.read_text(), name)
    if not known.exists():
        raise Failed("curl: (6) Could not resolve host: registry-1.docker.io")
    return known


def fetched(folder: Path, registry: str, address: str, image: str) -> Path:
    """Return the SquashFS file of an image with one layer. Take it from the cache, or fetch it from
    a real registry like src/docker.sh, with the user and password in the credentials file."""
    name, _, tag = image.partition(":")
    logins = HTTPPasswordMgrWithDefaultRealm()
    file = Path(os.environ["HOME"], ".config/enroot/.credentials")
    known = netrc.netrc(file).authenticators(registry) if file.exists() else None
    if known is not None:
        logins.add_password(None, address, known[0], known[2])
    asks = build_opener(HTTPBasicAuthHandler(logins))

    def answer(what: str) -> Any:
        url = f"http://{address}/v2/{name}/{what}"
        try:
            return asks.open(Asking(url, headers={"Accept": _MANIFEST}))
        except HTTPError as error:
            said = f"returned error code: {error.code} {error.reason}"
            raise Failed(f"[ERROR] URL {url} {said}") from error

    (layer,) = json.load(answer(f"manifests/{tag or 'latest'}"))["layers"]
    cached = folder / "cache" / f"{layer['digest'].removeprefix('sha256:')}.sqsh"
    with locked(folder, cached.name):
        if not cached.exists():
            whole = cached.with_suffix(".tar")
            with whole.open("wb") as written:
                shutil.copyfileobj(answer(f"blobs/{layer['digest']}"), written)
            words = ["mksquashfs", "-", str(cached), "-tar", "-quiet", "-no-progress"]
            with whole.open("rb") as read:
                subprocess.run(
                    [*words, "-noI", "-noD", "-noF"],
                    stdin=read,
                    stdout=subprocess.DEVNULL,
                    check=True,
                )
            whole.unlink()
    return cached


def pack(container: Path, file: str) -> None:
    words = ["mksquashfs", str(container), file, "-noappend", "-quiet", "-no-progress"]
    subprocess.run([*words, "-noI", "-noD", "-noF"], stdout=subprocess.DEVNULL, check=True)


def unpack(image: Path, container: Path) -> None:
    if container.exists():
        raise Failed(f"[ERROR] File already exists: {container}")
    with image.open("rb") as file:
        if file.read(4) != b"hsqs":
            raise Failed(f"[ERROR] Invalid image format: {image}")
    subprocess.run(
        ["unsquashfs", "-no-progress", "-quiet", "-no-xattrs", "-d", container, image],
        stdout=subprocess.DEVNULL,
        check=True,
    )


def entered(
    container: Path, mounts: list[tuple[str, str]], command: list[str], *, workdir: str
) -> list[str]:
    """Return the command to execute. Create missing mount destinations."""
    for src, dst in mounts:
        point = container / dst.removeprefix("/")
        (point if Path(src).is_dir() else point.parent).mkdir(parents=True, exist_ok=True)
        if not Path(src).is_dir():
            point.touch()
    os.environ.setdefault("USER", "root")
    argv = ["ch-run", "--write", "--private-tmp", "--env-no-expand", f"--cd={workdir}"]
    argv += [f"--set-env=HOME={os.environ['HOME']}"]
    argv += [f"--bind={src}:{dst}" for src, dst in mounts]
    return [*argv, str(container), "--", *command]


if __name__ == "__main__":
    main(sys.argv)
