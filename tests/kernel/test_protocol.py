"""Jupyter's test suite for kernels, on a kernel in a job."""

from __future__ import annotations

import unittest

import jupyter_kernel_test

from tests.kernel.conftest import Home


def test_remote_kernel_passes_the_kernel_protocol_suite(home: Home) -> None:
    home.add()
    kernel = home.start()
    kernel.value("print()")  # while it waits for a job, the proxy answers itself (test_remote.py)

    class Protocol(jupyter_kernel_test.KernelTests):  # type: ignore[misc]
        language_name = "python"
        file_extension = ".py"
        code_hello_world = "print('hello, world')"
        code_stderr = "import sys; print('test', file=sys.stderr)"
        completion_samples = ({"text": "zi", "matches": {"zip"}},)
        complete_code_samples = ("1", "print('hello, world')", "def f(x):\n  return x*2\n\n\n")
        incomplete_code_samples = ("print('''hello", "def f(x):\n  x*2")
        invalid_code_samples = ("import = 7q",)
        code_page_something = "zip?"
        code_generate_error = "raise"
        code_execute_result = ({"code": "1+2+3", "result": "6"},)
        code_display_data = (
            {
                "code": "from IPython.display import HTML, display; display(HTML('<b>test</b>'))",
                "mime": "text/html",
            },
            {
                "code": "from IPython.display import Math, display; display(Math('x'))",
                "mime": "text/latex",
            },
        )
        code_history_pattern = "1?2*"
        supported_history_operations = ("tail", "search")
        code_inspect_sample = "zip"
        code_clear_output = "from IPython.display import clear_output; clear_output()"

        @classmethod
        def setUpClass(cls) -> None:
            cls.km, cls.kc = kernel.manager, kernel.client

        @classmethod
        def tearDownClass(cls) -> None:
            """Do nothing, since `home` ends the kernel."""

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Protocol).run(result)
    assert result.failures == result.errors == []
    # For a "range" of the current session, ipykernel always returns session 0.
    assert [why for _, why in result.skipped] == ["History range not supported"]
    assert result.testsRun == 12
    assert len(home.jobs()) == 1
