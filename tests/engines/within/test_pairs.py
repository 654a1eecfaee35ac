"""One or two words decide by themselves, as long as nothing else is asked."""

from __future__ import annotations

from nearcast import Box, Broker, Circle, Message, Space, Within
from nearcast.engines.within.layout import NO_WORD
from nearcast.model.kinds import Kind

ASKED = {
    "one": "tea",
    "two": "tea cake",
    "three": "tea cake jam",
    "not": "tea AND NOT cake",
    "either": "tea OR cake",
}


def deciding(broker: Broker) -> set[str]:
    """The subscriptions that few words decide about, by id; what the engine knows is checked."""
    engine, registry = broker.parts.engines[Kind.WITHIN], broker.parts.registry
    engine.check()
    slots = {name: registry.where(registry.find(name))[1] for name in (*ASKED, "mortal", "asking")}
    return {name for name, slot in slots.items() if engine.tree.pairs[2 * slot] != NO_WORD}


def test_few_words_decide_unless_more_is_asked(tmp_path):
    broker = Broker(Space((0, 0, 10, 10), metric="euclidean"))
    for name, expression in ASKED.items():
        broker.subscribe(name, Within(Box(0, 0, 5, 5), expression))
    broker.subscribe("mortal", Within(Box(0, 0, 5, 5), "tea cake"), expires=10)
    broker.subscribe("asking", Within(Box(0, 0, 5, 5), "tea cake", where="price < 5"))
    assert deciding(broker) == {"one", "two"}
    broker.move("two", region=Circle(2, 2, 2))
    assert deciding(broker) == {"one"}
    broker.snapshot(tmp_path / "kept")
    restored = Broker.restore(tmp_path / "kept")
    assert deciding(restored) == {"one"}
    restored.move("two", region=Box(1, 1, 5, 5))
    assert deciding(restored) == {"one", "two"}
    told = restored.publish([Message(1, 2, 2, "tea cake"), Message(2, 0.5, 2, "tea cake"), Message(3, 2, 2, "cake")])
    assert {update.message for update in told if update.subscription == "two"} == {1}
