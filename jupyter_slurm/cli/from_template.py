"""`clusters add NAME --template T` and `clusters templates`: a cluster that has a template.

It asks for what only the user knows, writes these few lines, and logs in nowhere. `new_cluster.py`
looks at a cluster without a template.
"""

from __future__ import annotations

from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.dialogue import Dialogue
from jupyter_slurm.cli.say import say, tell
from jupyter_slurm.cli.table import as_json, table
from jupyter_slurm.commands import new_cluster
from jupyter_slurm.commands.arguments import Arguments
from jupyter_slurm.commands.command import by_words
from jupyter_slurm.errors import ConfigError, RequestError
from jupyter_slurm.profiles import save, templates
from jupyter_slurm.profiles.reading import load_profiles
from jupyter_slurm.profiles.save import Setting, toml_text
from jupyter_slurm.profiles.templates import Template
from jupyter_slurm.slurm.options import suggest


def listed(args: Arguments, connect: Connect) -> int:
    del connect
    known = {name: templates.read(name).about for name in templates.names()}
    if args.json:
        say(as_json(known))
    else:
        say(table(["Name", "Cluster"], [[name, about] for name, about in known.items()]))
        tell("To use one: jupyter slurm clusters add NAME --template NAME")
    return 0


def add(args: Arguments, talk: Dialogue) -> bool:
    """Write the profile if the user agrees; return whether they did. RequestError, ConfigError."""
    template = _named(args.template)
    talk.say(f"{template.about}.")
    settings = _settings(args, template, talk)
    path = save.profile_path(args.name)
    say(f"\n{path}:\n\n{toml_text(settings)}\n")
    if not talk.agreed("Keep this?"):
        talk.say("Nothing is kept.")
        return False
    save.write_profile(args.name, settings)
    try:
        hint = load_profiles().get(args.name).hint
    except ConfigError:
        path.unlink()
        raise
    if hint:
        talk.say(hint)
        talk.say(f"To log in: jupyter slurm login {args.name}")
    return True


def _named(name: str) -> Template:
    known = templates.names()
    if name in known:
        return templates.read(name)
    near = suggest(name, known)
    raise RequestError(
        f"There is no template `{name}`{f'; did you mean `{near}`?' if near else '.'}",
        hint=f"Templates: {', '.join(known)}.",
    )


def _settings(args: Arguments, template: Template, talk: Dialogue) -> dict[str, Setting]:
    """Return the file's settings: the template's name, and what differs from the template."""
    given = _given(args)
    answers = _variables(args.var, template)
    for name, question in template.ask.items():
        if name not in given and name not in answers:
            default = str(template.settings.get(name, ""))
            option = new_cluster.asked_by(template, name)
            answers[name] = talk.text(question, default, option=option)
    return new_cluster.by_template(template, given, answers)


def _given(args: Arguments) -> dict[str, Setting]:
    """Return the settings that the options give."""
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
                f"--var: `{pair}` is not NAME=VALUE of the template.",
                hint=f"It has: {', '.join(known)}." if known else f"`{template.name}` has none.",
            )
        variables[name] = value
    return variables


COMMANDS = by_words(clusters_templates=listed)
