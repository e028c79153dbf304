from jupyter_slurm.slurm import fields
from jupyter_slurm.slurm.fields import FIELD_END, RECORD_END, split_lines, split_records

NAMES = ("id", "name")


def record(*values: str) -> str:
    return FIELD_END.join(values) + RECORD_END + "\n"


def test_records_may_hold_newlines() -> None:
    text = record("1", "a\nb") + record("2", "\n")
    assert split_records(text, NAMES) == [{"id": "1", "name": "a\nb"}, {"id": "2", "name": "\n"}]


def test_the_last_field_takes_further_separators() -> None:
    assert split_records(record("1", "a", "b"), NAMES) == [{"id": "1", "name": f"a{FIELD_END}b"}]


def test_a_record_end_in_a_free_text_makes_no_record_of_its_own() -> None:
    text = record("1", f"a{RECORD_END}b") + record("2", "c")
    rows = split_records(text, NAMES)
    assert [row["id"] for row in rows] == ["1", "2"]
    assert rows[0]["name"] == f"a{RECORD_END}b"


def test_lines_that_are_the_rest_of_a_text_are_put_back() -> None:
    text = f"1{FIELD_END}a\nb\n\n2{FIELD_END}c\n"
    assert [row["name"] for row in split_lines(text, NAMES)] == ["a\nb", "c"]


def test_no_output_has_no_records() -> None:
    assert split_records(b"", NAMES) == []
    assert split_lines("\n", NAMES) == []


def test_bytes_that_are_no_utf8_are_told_as_text() -> None:
    [row] = split_records(b"1\x1f\xff\x1e\n", NAMES)
    assert row["name"] == "\\xff"


def test_what_is_set_is_not_unset() -> None:
    assert not set(fields.SLURM_ENV) & set(fields.SLURM_ENV_UNSET)
    assert "SLURM_CONF" not in fields.SLURM_ENV_UNSET
