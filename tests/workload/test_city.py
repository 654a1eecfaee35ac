from __future__ import annotations

import json

import pytest

import nearcast as nc
from nearcast.errors import InvalidInput
from nearcast.model import codec
from nearcast.workload import city
from nearcast.workload.city import map as city_map
from nearcast.workload.city import words as city_words
from nearcast.workload.city.posts import DAY_START, HOUR_MS, SLOT, along, hood_of, street_of


@pytest.fixture(scope="module")
def day():
    return city.sample(3, 1_500)


def test_posts_are_valid_in_order_and_in_the_city(day):
    posts, _ = day
    assert [post["id"] for post in posts] == list(range(1, 1_501))
    assert [post["ts"] for post in posts] == sorted(post["ts"] for post in posts)
    west, south, east, north = city.BOUNDS
    for post in posts:
        message = codec.message_from_json(post)
        assert west <= message.lon <= east
        assert south <= message.lat <= north
        assert DAY_START <= message.ts < DAY_START + 24 * HOUR_MS
        assert message.expires is None or message.expires > message.ts
        assert "{" not in message.text
        assert len(message.words) >= 2
    assert 0.1 < sum("expires" in post for post in posts) / 1_500 < 0.5
    assert len({post["text"] for post in posts}) > 1_000


def test_events_are_valid_and_cover_every_kind_and_region(day):
    _, events = day
    assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)
    for event in events:
        codec.event_from_json(event)
    named = {person.id for person in city.PEOPLE}
    subscribed = [event for event in events if event["event"] == "subscribe"]
    assert len(subscribed) == len({event["id"] for event in subscribed}) == 300 + len(named)
    told = [event for event in subscribed if event["id"] in named]
    assert {event["kind"] for event in told} == {"within", "similar", "topk", "nearest"}
    regions = [event["region"] for event in told if "region" in event]
    assert {"box" if isinstance(region, list) else region["type"] for region in regions} == {"box", "Circle", "Polygon"}
    assert any("NOT" in event["keywords"] for event in told)
    assert {event["id"] for event in events if event["event"] == "move"} == {"tomas", "anouk"}
    assert [event["id"] for event in events if event["event"] == "unsubscribe"] == ["pilar"]


def test_a_tram_moves_and_posts_are_taken_back(day):
    posts, events = day
    trams = [codec.event_from_json(event).message for event in events if event["event"] == "update"]
    assert {message.id for message in trams} == {city.TRAM}
    assert len({(message.lon, message.lat) for message in trams}) > 10
    assert {message.fields["late"] > 9 for message in trams} == {False, True}
    gone = {event["id"]: event["ts"] for event in events if event["event"] == "retract"}
    assert len(gone) > 5
    for post in posts:
        assert post["ts"] < gone.get(post["id"], post["ts"] + 1) < post.get("expires", 1 << 60)
    told = city.versions(posts, events)
    assert len(told) == len(posts) + len(trams)
    assert {message["id"]: message["until"] for message in told if "until" in message} == gone


def test_everybody_with_a_where_a_phrase_or_a_prefix_hears_something(day):
    posts, events = day
    asked = [event for event in events if event["event"] == "subscribe" and event["id"] in ("lena", "kofi", "oskar")]
    broker = nc.Broker(city.space(), nc.Window(age=3 * 3600))
    broker.subscribe_many([{k: v for k, v in event.items() if k not in ("event", "ts")} for event in asked])
    signs = {event["id"]: [] for event in asked}
    for message in sorted([*posts, *events], key=lambda each: each["ts"]):
        event, updates = message.get("event", "publish"), []
        if event == "retract":
            updates = broker.retract(message["id"])
        elif event in ("publish", "update"):
            given = codec.message_from_json({k: v for k, v in message.items() if k != "event"})
            updates = broker.update(given)
        for update in updates:
            signs[update.subscription].append(update.sign)
    assert {len(heard) > 3 for heard in signs.values()} == {True}
    assert signs["lena"] == ["+", "-"] * (len(signs["lena"]) // 2)


def test_the_seed_decides():
    assert city.sample(1, 600) == city.sample(1, 600)
    assert city.sample(1, 600) != city.sample(2, 600)
    assert len(city.sample(1, 3)[0]) == 3
    with pytest.raises(InvalidInput, match="n_messages must be >= 1, got 0"):
        city.sample(1, 0)


def test_the_files_hold_the_day_and_a_few_broken_lines(tmp_path, day):
    made = city.write_sample(tmp_path / "new", 3, 1_500)
    good, bad = [], 0
    for line in made.messages.read_text(encoding="utf-8").splitlines():
        try:
            post = json.loads(line)
            message = codec.message_from_json(post)
            city.space().check_point(message.lon, message.lat)
        except ValueError:
            bad += 1
        else:
            good.append(post)
    assert good == day[0]
    assert bad == made.n_bad_messages == 5
    events = [json.loads(line) for line in made.events.read_text(encoding="utf-8").splitlines()]
    assert len(events) == len(day[1]) + made.n_bad_events


def test_every_slot_of_every_template_can_be_filled():
    known = {*city_words.SLOTS, "hood", "street", "n", "price", "venue"}
    lines = [line for topic in city_words.TOPICS for line in (*topic.lines, *topic.tails)]
    for story in city_words.STORIES:
        lines += [*story.leads, *story.asides, *(line for part in story.lines for line in part)]
    assert {slot for line in lines for slot in SLOT.findall(line)} <= known
    assert all(len(topic.hours) == 18 for topic in city_words.TOPICS)


def test_names_of_places_are_right():
    for name, (x, y, _, _) in city_map.HOODS.items():
        assert hood_of(city_map.at(x, y)) == name
    quay = city_map.STREETS["Quay Road"]
    assert along(quay, 0.0) == quay[0]
    assert along(quay, 1.0) == quay[-1]
    assert street_of(quay[0]) == "Quay Road"
    assert {feature["type"] for feature in city_map.features()} == {"water", "river", "park", "street", "hood"}
