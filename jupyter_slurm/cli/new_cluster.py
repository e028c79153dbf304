"""The command `clusters add NAME`, which sets up a profile step by step.

Without a template it logs in, inspects the cluster (`Api.describe`, `Api.cluster_info`), proposes
settings, shows the file, and saves it if the user agrees. After an error, it does not save the
profile.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress

from jupyter_slurm import containers
from jupyter_slurm.api import Api
from jupyter_slurm.cli.caller import TerminalCaller
from jupyter_slurm.cli.dialogue import Dialogue
from jupyter_slurm.cli.say import say
from jupyter_slurm.client.login import TerminalPrompter, log_in
from jupyter_slurm.commands import new_cluster
from jupyter_slurm.commands.parsing import Arguments
from jupyter_slurm.errors import (
    ConfigError,
    ConnectionLostError,
    HostKeyError,
    JupyterSlurmError,
    LoginError,
    LoginNeededError,
    RequestError,
    TransportError,
)
from jupyter_slurm.formatting import counted, duration, memory
from jupyter_slurm.profiles import save, templates
from jupyter_slurm.profiles.reading import load_profiles
from jupyter_slurm.profiles.save import Setting, toml_text
from jupyter_slurm.profiles.ssh_hosts import ssh_hosts
from jupyter_slurm.profiles.templates import Template
from jupyter_slurm.slurm.options import suggest
from jupyter_slurm.views.connections import connected
from jupyter_slurm.wire import ClusterInfo, Description, Folder, Partition


def add(caller: TerminalCaller, args: Arguments) -> int:
    """Add the cluster. If the user does not agree, return 1 without saving the profile."""
    save.check_new(args.name)
    talk = Dialogue(asks=not args.yes)
    if args.template is not None:
        return _add_from_template(caller, args, talk)
    way = _way(args, talk)
    api = caller.api
    path = save.write_profile(args.name, way)
    kept = False
    try:
        try:
            _log_in(api, args.name, talk)
        except (LoginError, LoginNeededError, HostKeyError, ConnectionLostError):
            raise
        except TransportError as exc:
            gateway = () if args.yes else _gateway(way, talk, exc)
            if not gateway:
                raise
            way = {**way, "jump": gateway}
            save.write_profile(args.name, way)
            _log_in(api, args.name, talk)
        found, info = _look(api, args.name)
        _tell(talk, found, info)
        settings = {
            **new_cluster.with_login_shell(way, found),
            **_chosen(args, talk, found, info),
        }
        say(f"\n{path}:\n\n{toml_text(settings)}\n")
        if not talk.agreed("Keep this profile?"):
            talk.say("The profile was not saved.")
            return 1
        save.write_profile(args.name, settings)
        kept = True
    finally:
        if not kept:
            with suppress(JupyterSlurmError):  # possibly not connected
                api.disconnect(args.name)
            path.unlink(missing_ok=True)
    _make_default(api, args.name, talk)
    is_default = any(one.default and one.name == args.name for one in api.clusters())
    added = f"Added `{args.name}`{', now the default cluster' if is_default else ''}."
    talk.say(f"{added} Try it with: jupyter slurm clusters test {args.name}")
    return 0


# --- from a template --------------------------------------------------------------------------


def _add_from_template(caller: TerminalCaller, args: Arguments, talk: Dialogue) -> int:
    """Ask the template's questions and write the profile, without a login. Return the exit code."""
    template = _template_named(args.template)
    talk.say(f"{template.about}.")
    settings = _settings(args, template, talk)
    path = save.profile_path(args.name)
    say(f"\n{path}:\n\n{toml_text(settings)}\n")
    if not talk.agreed("Keep this profile?"):
        talk.say("The profile was not saved.")
        return 1
    save.write_profile(args.name, settings)
    try:
        hint = load_profiles().get(args.name).hint
    except ConfigError:
        path.unlink()
        raise
    if hint:
        talk.say(hint)
        talk.say(f"Log in with: jupyter slurm login {args.name}")
    _make_default(caller.api, args.name, talk)
    return 0


def _template_named(name: str) -> Template:
    known = templates.names()
    if name in known:
        return templates.read(name)
    near = suggest(name, known)
    raise RequestError(
        f"Unknown template `{name}`{f'; did you mean `{near}`?' if near else '.'}",
        hint=f"Use one of these templates: {', '.join(known)}.",
    )


def _settings(args: Arguments, template: Template, talk: Dialogue) -> dict[str, Setting]:
    """Return the file's settings: the template's name, and differences from the template."""
    given = _given(args)
    answers = _variables(args.var, template)
    for name, question in template.ask.items():
        if name not in given and name not in answers:
            default = str(template.settings.get(name, ""))
            option = new_cluster.asked_by(template, name)
            answers[name] = talk.text(question, default, option=option)
    return new_cluster.by_template(template, given, answers)


def _given(args: Arguments) -> dict[str, Setting]:
    """Return the settings from the options."""
    defaults = {"partition": args.partition, "account": args.account}
    settings: dict[str, Setting | None] = {
        "host": args.host,
        "user": args.user,
        "port": args.port,
        "jump": tuple(args.jump) or None,
        "runtime": args.runtime,
        "job_root": args.job_root,
        "defaults": {name: value for name, value in defaults.items() if value} or None,
    }
    return {name: value for name, value in settings.items() if value is not None}


def _variables(pairs: list[str], template: Template) -> dict[str, str]:
    known = template.variables()
    variables = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name not in known:
            raise RequestError(
                f"--var: `{pair}` is not NAME=VALUE with a variable of the template.",
                hint=f"Set one of these variables: {', '.join(known)}." if known else "Omit --var.",
            )
        variables[name] = value
    return variables


# --- the connection ---------------------------------------------------------------------------


def _way(args: Arguments, talk: Dialogue) -> dict[str, Setting]:
    """Return the settings of the connection and of Slurm's commands from the options. Ask for a
    missing host."""
    given: str | None = args.host
    if given is None:
        if args.yes:
            raise RequestError(
                "The host is missing.", hint="Set --host, or use `--host ''` for this machine."
            )
        known = ssh_hosts()
        talk.say(
            "The cluster's login node: a name in ~/.ssh/config, [user@]host[:port], or "
            "empty for this machine."
        )
        given = talk.choice("Host", known, "", option="--host")
    commands = new_cluster.commands(args.path, args.env)
    if not given:
        return commands
    return {**new_cluster.way(given, args.user or "", args.port, args.jump), **commands}


def _gateway(way: Mapping[str, Setting], talk: Dialogue, exc: TransportError) -> tuple[str, ...]:
    """Ask for jump hosts to an unreachable host; return () for none."""
    if "host" not in way or way["jump"]:
        return ()
    talk.say(str(exc))
    talk.say(
        "Gateway (ProxyJump), if any: a name in ~/.ssh/config or [user@]host[:port]; "
        "several separated by commas, outermost first; empty to stop."
    )
    return new_cluster.gateways(talk.text("Gateway", option="--jump"))


def _log_in(api: Api, name: str, talk: Dialogue) -> None:
    talk.say(connected(log_in(api, name, TerminalPrompter(), secrets.token_hex(8))))


def _look(api: Api, name: str) -> tuple[Description, ClusterInfo]:
    """Return the cluster's description and info. Raise ConfigError if the login node does not have
    Slurm's commands."""
    found = api.describe(name)
    new_cluster.check_slurm(found)
    return found, api.cluster_info(name)


# --- the description --------------------------------------------------------------------------


def _tell(talk: Dialogue, found: Description, info: ClusterInfo) -> None:
    talk.say(
        f"Slurm {info.slurm_version} ({found.sbatch}), "
        f"{'with' if info.accounting else 'without'} accounting."
    )
    for partition in info.partitions:
        say(f"  {_partition_text(partition)}\n")
    if info.accounts:
        talk.say(f"Accounts: {', '.join(info.accounts)}")
    if info.qos:
        talk.say(f"QOS: {', '.join(info.qos)}")
    tools = [*found.runtimes, *(["environment modules"] if found.modules else [])]
    talk.say(
        f"Found on the login node: {', '.join(tools)}."
        if tools
        else "Found no container tool on the login node."
    )
    talk.say(
        f"Python on the login node: {found.python}."
        if found.python
        else "Found no working Python on the login node. The nodes may have Python."
    )
    for folder in found.folders:
        say(f"  {_folder_text(folder)}\n")
    if not found.login_shell:
        talk.say("Jobs do not read the login files, which exit the shell (login_shell = false).")


def _partition_text(partition: Partition) -> str:
    told = [counted(partition.nodes, "node")]
    limit_s = partition.limit_s
    told.append("no time limit" if limit_s is None else duration(limit_s))
    if partition.gpus:
        types = f" ({', '.join(partition.gpu_types)})" if partition.gpu_types else ""
        told.append(counted(partition.gpus, "GPU") + types)
    if not partition.up:
        told.append("down")
    star = "*" if partition.default else ""
    return f"{partition.name}{star}: {', '.join(told)}"


def _folder_text(folder: Folder) -> str:
    free = ""
    if folder.free_mib is not None:
        free = f", {memory(folder.free_mib)} free"
    seen = "visible on every node" if folder.shared else "perhaps not visible on the nodes"
    write = "" if folder.writable else ", not writable by you"
    return f"{folder.name} = {folder.path} ({folder.file_system}{free}; {seen}{write})"


# --- the proposals ----------------------------------------------------------------------------


def _chosen(
    args: Arguments, talk: Dialogue, found: Description, info: ClusterInfo
) -> Mapping[str, Setting]:
    """Ask for the other settings one by one, with a default for each."""
    runtimes = new_cluster.runtimes(found)
    runtime = args.runtime or talk.choice(
        "Container tool", runtimes, runtimes[0], option="--runtime"
    )
    containers.runtime_named(runtime)
    roots = new_cluster.job_roots(found.folders)
    job_root = args.job_root or talk.choice(
        "Folder for jobs (visible on the login node and all nodes)",
        roots,
        roots[0],
        option="--job-root",
    )
    partition = _partition(args, talk, info.partitions)
    account = _account(args, talk, info.accounts)
    return new_cluster.chosen(runtime, job_root, partition, account)


def _partition(args: Arguments, talk: Dialogue, partitions: Sequence[Partition]) -> str:
    """Return the partition from the options or the user; "" if Slurm has its own default."""
    proposed = new_cluster.partition(partitions)
    if args.partition is not None or not proposed:
        return args.partition or ""
    names = [one.name for one in partitions if one.up]
    return talk.choice("Default partition", names, proposed, option="")


def _account(args: Arguments, talk: Dialogue, accounts: Sequence[str]) -> str:
    if args.account is not None or len(accounts) < 2:
        return args.account or ""
    return talk.choice(
        "Default account (empty: Slurm's default)",
        list(accounts),
        "",
        option="--account",
    )


def _make_default(api: Api, name: str, talk: Dialogue) -> None:
    """Make the cluster the default. If another cluster is the default, ask the user first."""
    known = api.clusters()
    if len(known) < 2 or any(one.default and one.name == name for one in known):
        return
    default = next((one.name for one in known if one.default), None)
    if default is None or talk.wanted(f"Make it the default cluster instead of `{default}`?"):
        save.set_default(name)
