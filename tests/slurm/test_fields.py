from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.slurm import sacct
from jupyter_slurm.slurm.fields import (
    FIELD_END,
    RECORD_END,
    record_format,
    sealed,
    split_lines,
    split_records,
)

NAMES = ("id", "name")


def record(*values: str) -> str:
    return FIELD_END.join(values) + RECORD_END + "\n"


def test_records_can_contain_newlines() -> None:
    text = record("1", "a\nb") + record("2", "\n")
    assert split_records(text, NAMES) == [{"id": "1", "name": "a\nb"}, {"id": "2", "name": "\n"}]


SECRET = "0123456789abcdef"


@given(st.text(), st.text())
def test_free_text_cannot_forge_a_record(text: str, after: str) -> None:
    argv = ["squeue", "-h", "-o", record_format({"id": "%i", "name": "%j"})]
    command = sealed(argv, SECRET)
    assert command.argv == (*argv[:3], f"%i{FIELD_END}%j{RECORD_END}{SECRET}")
    hostile = [f"{text}{record('9', after)}", f"{RECORD_END}{text}", after]
    printed = "".join(
        f"{number}{FIELD_END}{name}{RECORD_END}{SECRET}\n" for number, name in enumerate(hostile)
    )
    told = split_records(command.opened(printed.encode("utf-8", "surrogatepass")), NAMES)
    assert [row["id"] for row in told] == ["0", "1", "2"]
    assert all(RECORD_END not in row["name"] for row in told)


def test_name_in_accounting_cannot_forge_a_line() -> None:
    argv = sacct.argv(["12"])
    command = sealed(argv, SECRET)
    mark = FIELD_END + SECRET
    assert command.argv[5] == f"--delimiter={mark}"
    count = len(argv[argv.index("-o") + 1].split(","))
    forged = FIELD_END.join(["13", *["1"] * (count - 2), "owned"])
    printed = mark.join(["12", *["1"] * (count - 2), f"a\n{forged}\n"])
    [row] = sacct.parse(command.opened(printed.encode()))
    assert (row.slurm_id, row.name.count("\\x1f")) == ("12", count - 1)


def test_text_before_a_record_is_ignored() -> None:
    assert split_records("Welcome!\nto the site\n" + record("1", "a"), NAMES) == [
        {"id": "1", "name": "a"}
    ]


def test_multi_line_text_is_joined() -> None:
    text = f"1{FIELD_END}a\nb\n\n2{FIELD_END}c\n"
    assert [row["name"] for row in split_lines(text, NAMES)] == ["a\nb", "c"]


def test_invalid_utf8_is_escaped() -> None:
    [row] = split_records(b"1\x1f\xff\x1e\n", NAMES)
    assert row["name"] == "\\xff"
