"""Q: recording a plan does not compare the whole index with HEAD; `bench/large.py` times it."""

from support.state import KEY, markdown


def base_of(repo, tugcode) -> str:
    assert tugcode("-C", repo.path, "state", "init", "work").status == 0
    return tugcode("-C", repo.path, "state", "reconcile", "work", "--json").data["base_commit"]


def test_the_commit_that_brought_a_plan_is_found_without_the_index(repo, tugcode):
    repo.plan("work", markdown("1 t"))
    brought = repo.commit({"code.py": "pass\n"})
    repo.commit({"code.py": "later\n"})
    (repo.path / ".git" / "index").write_bytes(b"not an index")
    assert base_of(repo, tugcode) == brought


def test_a_plan_that_is_not_committed_as_it_stands_starts_from_head(repo, tugcode):
    repo.plan("work", markdown("1 t"))
    repo.commit({"code.py": "pass\n"})
    head = repo.commit({"code.py": "later\n"})
    (repo.path / KEY).write_text(markdown("1 t", "2 t"))
    assert base_of(repo, tugcode) == head


def test_line_ends_that_git_converts_do_not_count_as_a_change(repo, tugcode):
    repo.plan("work", markdown("1 t"))
    brought = repo.commit({".gitattributes": "*.md text eol=crlf\n"})
    repo.commit({"code.py": "later\n"})
    (repo.path / KEY).write_bytes(markdown("1 t").replace("\n", "\r\n").encode())
    assert base_of(repo, tugcode) == brought
