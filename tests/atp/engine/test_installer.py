"""uv is told what pip is configured to use (https://pip.pypa.io/en/stable/topics/configuration/)."""

from __future__ import annotations

from pathlib import Path

import pytest

from atp.engine.installer import uv_environment


@pytest.fixture
def configured(tmp_path: Path) -> dict[str, str]:
    """A home with a pip.conf, and no other configuration in sight."""
    folder = tmp_path / "config" / "pip"
    folder.mkdir(parents=True)
    (folder / "pip.conf").write_text(
        "[global]\nindex-url = http://mirror.invalid/simple\n"
        "extra-index-url =\n    http://one.invalid/simple\n    http://two.invalid/simple\n"
        "[install]\ntrusted-host = mirror.invalid\n",
        encoding="utf-8",
    )
    return {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_CONFIG_DIRS": str(tmp_path),
    }


def test_the_files_of_pip_reach_uv(configured: dict[str, str]) -> None:
    environment = uv_environment(configured)
    assert environment["UV_DEFAULT_INDEX"] == "http://mirror.invalid/simple"
    assert environment["UV_INDEX"] == "http://one.invalid/simple http://two.invalid/simple"
    assert environment["UV_INSECURE_HOST"] == "mirror.invalid"


def test_pips_variables_go_before_its_files(configured: dict[str, str]) -> None:
    environment = uv_environment({**configured, "PIP_INDEX_URL": "http://variable.invalid/simple"})
    assert environment["UV_DEFAULT_INDEX"] == "http://variable.invalid/simple"


@pytest.mark.parametrize("name", ["UV_DEFAULT_INDEX", "UV_INDEX_URL"])
def test_uvs_own_variables_go_before_all_of_pips(configured: dict[str, str], name: str) -> None:
    environment = uv_environment({**configured, name: "http://own.invalid/simple"})
    assert environment[name] == "http://own.invalid/simple"
    assert "http://mirror.invalid/simple" not in environment.values()


def test_a_named_file_goes_last_and_the_null_device_switches_all_off(
    configured: dict[str, str], tmp_path: Path
) -> None:
    named = tmp_path / "named.conf"
    named.write_text("[global]\nindex-url = http://named.invalid/simple\n", encoding="utf-8")
    assert (
        uv_environment({**configured, "PIP_CONFIG_FILE": str(named)})["UV_DEFAULT_INDEX"]
        == "http://named.invalid/simple"
    )
    assert "UV_DEFAULT_INDEX" not in uv_environment({**configured, "PIP_CONFIG_FILE": "/dev/null"})


def test_folders_of_links_that_are_not_there_are_left_out(configured: dict[str, str], tmp_path: Path) -> None:
    links = f"{tmp_path} {tmp_path / 'none'} http://links.invalid/"
    environment = uv_environment({**configured, "PIP_FIND_LINKS": links})
    assert environment["UV_FIND_LINKS"] == f"{tmp_path},http://links.invalid/"
