"""Files appear whole or not at all, and nothing but regular files is replaced."""

import os

import pytest

from rmtsym import InputError
from rmtsym.files import write_whole


def test_an_error_leaves_the_old_content(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), write_whole(target, "w") as stream:
        stream.write("new")
        raise ZeroDivisionError
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "a.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    with write_whole(link, "w") as stream:
        stream.write("new")
    assert link.is_symlink() and target.read_text() == "new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_refused_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="regular file"), write_whole(pipe, "w") as stream:
        stream.write("new")
    assert pipe.is_fifo()
