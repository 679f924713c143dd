"""Prints the totals of the databases after the tests."""


def pytest_terminal_summary(terminalreporter, config):
    lines = getattr(config, "database_totals", [])
    if lines:
        terminalreporter.write_sep("=", "databases under chaos")
        for line in lines:
            terminalreporter.write_line(line)
