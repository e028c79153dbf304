"""A part that tests share and that does not start."""

from __future__ import annotations

import pytest

from tests.cluster.started import started


def test_what_starts_at_the_second_try_is_there() -> None:
    tries = iter([OSError("busy"), None])

    def start() -> str:
        if error := next(tries):
            raise error
        return "there"

    assert started("A cluster", start) == "there"
    assert next(tries, "no third") == "no third"


def test_what_does_not_start_fails_every_test_in_one_sentence_and_is_not_tried_on(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import pytest
        from tests.cluster.started import started
        TRIES = []

        def start():
            TRIES.append(1)
            raise OSError(f"no, {len(TRIES)}")

        @pytest.fixture(scope="session")
        def cluster():
            return started("The cluster", start)

        @pytest.mark.parametrize("number", range(3))
        def test_one(cluster, number):
            pass

        def test_last():
            assert len(TRIES) == 2
        """
    )
    done = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider")
    done.assert_outcomes(errors=3, passed=1)
    text = done.stdout.str()
    told = "The cluster could not be started: OSError: no, 1; and once more: OSError: no, 2"
    assert text.count(f"{told}\n") >= 3
    assert "Traceback" not in text
    assert "def start" not in text
