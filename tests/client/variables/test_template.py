"""Templates and creators of variables against TensorFlow's: nodes, names, errors."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow

import tfjit
from tests.client.variables.same_graphs import resource_variables, same_graph

tf1 = tensorflow.compat.v1


def layer(x: Any, tf: Any, size: int = 3) -> Any:
    """Return a product with a shared matrix, plus local variables."""
    w = tf.get_variable("w", [2, size])
    tf.get_variable("step", [], trainable=False)
    tf.get_local_variable("count", [])
    return tf.matmul(x, w, name="product")


def templates(tf: Any) -> Any:
    """Call templates of all kinds; return facts of theirs."""
    x, facts = tf.ones([4, 2]), []
    plain = tf.make_template("plain", layer, tf=tf)
    now = tf.make_template("now", layer, create_scope_now_=True, tf=tf, size=2)
    unique = tf.make_template("name", layer, unique_name_="unique", tf=tf)

    def own(getter: Any, name: str, **kwargs: Any) -> Any:
        return tf.identity(getter(name, **kwargs), name="got")

    custom = tf.make_template("own", layer, custom_getter_=own, tf=tf)
    facts.append((plain.variable_scope, plain.variable_scope_name, plain.variables))
    for template in (plain, now, unique, custom):
        for inner in ("", "inner"):
            with tf.variable_scope("outer"), tf.name_scope(inner or None):
                facts.append(template(x).name)
        for kind in ("variables", "trainable_variables", "non_trainable_variables", "weights"):
            facts.append([v.name for v in getattr(template, kind)])
        facts += [template.name, template.variable_scope_name, template.var_scope.name]
        facts += [template.variable_scope.original_name_scope]
    return facts


def creators(tf: Any) -> Any:
    """Make variables by creators; return their arguments."""
    seen: list[Any] = []

    def renamed(next_creator: Any, **kwargs: Any) -> Any:
        kwargs["name"] = f"{kwargs['name']}_made"
        return next_creator(**kwargs)

    def noted(next_creator: Any, **kwargs: Any) -> Any:
        names = sorted(set(kwargs) - {"experimental_enable_variable_lifting"})
        seen.append((names, kwargs["name"], kwargs["trainable"], kwargs["use_resource"]))
        return next_creator(**kwargs)

    with tf.variable_creator_scope(renamed), tf.variable_creator_scope(noted):
        tf.Variable(1.0, False, name="a")
        tf.get_variable("b", [2], use_resource=True)
    tf.Variable(1.0, name="c")
    with tf.variable_op_scope([], "d", "e") as scope, tf.init_scope():
        seen.append((scope.name, tf.get_variable("f", []).name))
    return seen


@pytest.mark.parametrize("program", [templates, creators])
@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
def test_same_graphs(program: Any, resource: bool) -> None:
    with resource_variables(resource):
        same_graph(program)


def test_errors() -> None:
    found = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default():
            bad = tf.make_template("t", lambda tf=tf: tf.Variable(1.0, name="v"))
            bad()
            with pytest.raises(ValueError) as again:
                bad()
            with pytest.raises(ValueError) as nameless:
                tf.make_template(None, bad)
            fails = tf.make_template("u", lambda: 1 // 0)
            with pytest.raises(ZeroDivisionError) as other:
                fails()
        texts = [str(again.value).partition("<")[0], str(nameless.value)]
        assert "originally defined at:" in str(again.value) and __file__ in str(other.value)
        found.append([*texts, str(other.value).splitlines()[0]])
    assert found[1] == found[0]
