from __future__ import annotations

import pytest

from chaos.report.markup import Content, Markup, join, tag


def test_elements_nest_and_attributes_take_their_names() -> None:
    page = tag("p", "a ", tag("b", 1), [tag("br"), None, (2.5,)], class_="x y", text_anchor="end", id=None)
    assert page == '<p class="x y" text-anchor="end">a <b>1</b><br>2.5</p>'


@pytest.mark.parametrize("content", ["<b>", ["<b>"], (x for x in ["<b>"])])
def test_text_is_never_markup(content: Content) -> None:
    assert join(content) == "&lt;b&gt;"


def test_an_attribute_cannot_be_left() -> None:
    assert tag("i", title="\"'><b>&\x1b") == '<i title="&#34;&#39;&gt;&lt;b&gt;&amp; "></i>'


def test_what_is_markup_is_taken_as_it_is() -> None:
    assert tag("p", Markup("<hr>")) == "<p><hr></p>"
    assert tag("p", Markup("<hr>") + "<i>") == "<p>&lt;hr&gt;&lt;i&gt;</p>"  # joined by hand it is text again
