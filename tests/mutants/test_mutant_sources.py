"""Every mutant applies to the sources as they stand; their copy has all bugs and no others."""

from collections import Counter

import mutant_sources
import pytest
from mutant_sources import MisplacedError, with_bugs
from mutants import MUTANTS, Mutant, after, before, instead

FILE = "remat/runtime.cpp"


def runs(name: str) -> str:
    return f'::tidepool::mutants::is("{name}")'


def test_every_place_is_found_in_the_sources():
    made = mutant_sources.mutated_sources()
    for mutant in MUTANTS:
        assert mutant.places
        uses = Counter(place.file for place in mutant.places)
        for file, count in uses.items():
            assert made[file].count(runs(mutant.name)) == count
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_bugs_stand_in_their_places_and_nothing_else_changes():
    text = "int f() {\n  return a + b;\n}\n"
    assert with_bugs(text, [("1.x", instead(FILE, "a + b", "a"))]) == (
        f"int f() {{\n  return ({runs('1.x')} ? (a) : (a + b));\n}}\n")
    assert with_bugs(text, [("1.x", after(FILE, "{\n", "g();")),
                            ("1.y", before(FILE, "  return", "h();"))]) == (
        f"int f() {{\nif ({runs('1.x')}) {{ g(); }}\nif ({runs('1.y')}) {{ h(); }}\n"
        "  return a + b;\n}\n")
    assert with_bugs(text, []) == text


def test_mutants_may_share_a_place():
    places = [("1.x", instead(FILE, "a + b", "a")), ("1.y", instead(FILE, "a + b", "b"))]
    assert with_bugs("a + b", places) == (
        f"({runs('1.y')} ? (b) : ({runs('1.x')} ? (a) : (a + b)))")


@pytest.mark.parametrize("text, count", [("no such text", 0), ("include", None)])
def test_a_place_that_is_not_there_once_is_refused_by_name(text, count):
    mutant = Mutant("2.moved", "nothing", (instead(FILE, text, "0"),))
    with pytest.raises(MisplacedError, match=f"2.moved: found {count or '[0-9]+'} times .*{FILE}"):
        mutant_sources.mutated_sources([mutant])


def test_overlapping_places_are_refused():
    with pytest.raises(MisplacedError, match="overlap"):
        with_bugs("a + b + c", [("1.x", instead(FILE, "a + b", "0")),
                                ("1.y", instead(FILE, "b + c", "0"))])


def test_the_copy_links_to_the_sources_and_follows_them(tmp_path):
    mutant_sources.make(tmp_path)
    changed = {place.file for mutant in MUTANTS for place in mutant.places}
    files = {path.relative_to(tmp_path).as_posix(): path for path in tmp_path.rglob("*")
             if not path.is_dir()}
    assert "allocator/CMakeLists.txt" in files and "remat/runtime.h" in files
    own = {file for file, path in files.items() if not path.is_symlink()}
    assert own == changed | {mutant_sources.NAMES_HEADER, mutant_sources.SETTINGS}

    before_it = {file: files[file].stat().st_mtime_ns for file in own}
    stale = tmp_path / "remat" / "gone.cpp"
    stale.symlink_to(tmp_path / "nowhere")
    broken = files["remat/versions.cpp"]
    broken.write_text("else")
    mutant_sources.make(tmp_path)
    assert not stale.is_symlink() and "2.write_not_cut" in broken.read_text()
    assert all(files[file].stat().st_mtime_ns == time for file, time in before_it.items()
               if files[file] != broken)
