"""What the people of the invented city write: templates by topic, the day's events, and words to fill them with."""

from __future__ import annotations

from typing import NamedTuple


class Topic(NamedTuple):
    """One thing people post about all day."""

    category: str  # a field of the posts
    share: float  # weight among topics
    place: str  # "street", "park", "hood", or kinds of venue joined by "|"
    hours: tuple[int, ...]  # weight of each hour from 6 to 23
    lines: tuple[str, ...]
    tails: tuple[str, ...] = ()
    minutes: int = 0  # posts expire after at most this long; 0: they do not


class Story(NamedTuple):
    """One event of the day, told by many posts; `lines` follow it from first rumour to end.

    About half of the posts say how the writer knows (`leads`) or add a word of their own (`asides`).
    """

    share: float
    start: float  # hour
    end: float
    way: tuple[tuple[float, float], ...]  # where it happens, in km; posts move along it with time
    blur_km: float
    lines: tuple[tuple[str, ...], ...]
    leads: tuple[str, ...] = ()
    asides: tuple[str, ...] = ()
    expires: bool = False


_MORNING = (6, 9, 9, 7, 5, 4, 3, 2, 2, 2, 1, 1, 1, 1, 1, 1, 0, 0)
_RUSH = (4, 9, 10, 5, 2, 2, 3, 2, 2, 3, 7, 10, 8, 3, 2, 1, 1, 1)
_LUNCH = (0, 1, 1, 2, 3, 6, 10, 9, 4, 2, 2, 4, 8, 9, 7, 4, 2, 1)
_SHOPS = (0, 1, 2, 5, 7, 7, 6, 6, 7, 7, 7, 6, 4, 2, 1, 1, 0, 0)
_NIGHT = (0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 6, 8, 10, 10, 9, 7, 4)
_ANY = (2, 4, 5, 5, 5, 5, 6, 6, 5, 5, 6, 7, 7, 7, 6, 5, 4, 2)

TOPICS = (
    Topic(
        "food",
        17,
        "eat",
        _LUNCH,
        (
            "{good} {dish} at {venue}",
            "the {dish} at {venue} is {good}",
            "{venue} has a new {dish}, and it is {good}",
            "lunch at {venue}: {dish} and {drink}",
            "{n} minute queue at {venue} for the {dish}, worth it",
            "tried the {dish} at {venue}. honestly {meh}",
            "who wants {dish} tonight? thinking {venue} in {hood}",
            "{venue} sold out of {dish} again",
            "vegan {dish} at {venue} now, finally",
            "table for two free at {venue}, someone cancelled",
        ),
        ("#foodie", "10/10", "see you there", "bring cash", "sit at the counter", "portion is huge"),
    ),
    Topic(
        "coffee",
        8,
        "cafe|bakery",
        _MORNING,
        (
            "flat white and a {bake} at {venue}",
            "best espresso in {hood} is still {venue}",
            "{venue} just took {bake}s out of the oven",
            "working from {venue} today, free wifi and quiet",
            "coffee at {venue} with {person}, {good} start",
            "vegan {bake} at {venue}, get there before ten",
            "{venue} opens late today, no coffee until nine",
        ),
        ("#coffee", "still warm", "tell them {person} sent you"),
    ),
    Topic(
        "traffic",
        13,
        "street",
        _RUSH,
        (
            "{street} is at a standstill near {hood}",
            "traffic light out on {street}, careful",
            "crash on {street}, one lane closed",
            "{vehicle} broken down on {street}, long queue behind it",
            "tram {n} delayed {n} minutes at {hood}",
            "bus {n} is late again on {street}",
            "roadworks on {street}, use {other_street} instead",
            "{street} closed both ways, police directing traffic",
            "{street} is open again, road cleared",
            "cyclist down on {street}, ambulance is there",
            "no trams through {hood} right now, replacement bus on {street}",
        ),
        ("avoid", "drive safe", "add {n} minutes", "#traffic"),
        180,
    ),
    Topic(
        "music",
        8,
        "music|bar",
        _NIGHT,
        (
            "live {genre} at {venue} tonight",
            "{band} on stage at {venue}, {good}",
            "two spare tickets for {band} at {venue} tonight",
            "{venue}: doors at eight, {genre} until late",
            "{genre} jam session at {venue}, bring your horn",
            "free concert at {venue}, {band} playing {genre}",
            "{band} cancelled at {venue}, refunds at the door",
            "quiz night at {venue}, our team needs one more",
        ),
        ("#livemusic", "come early", "no cover", "last tram is at half past twelve"),
    ),
    Topic(
        "sale",
        9,
        "shop|market",
        _SHOPS,
        (
            "{sale} at {venue}: {percent} percent off {goods}",
            "{venue} clearance sale, {goods} from {price}",
            "found a {colour} vintage {goods} at {venue} for {price}",
            "selling my {goods}, {price} or offer, pick up near {venue}",
            "{venue} has second hand {goods} on discount today",
            "used {goods} for sale, barely touched, {price}",
            "early bird stall at {venue}: {goods}, {goods} and {goods}",
        ),
        ("today only", "first come first served", "cash or card", "message me"),
        240,
    ),
    Topic(
        "lost",
        5,
        "hood",
        _ANY,
        (
            "lost {pet} near {street}, answers to {petname}, please share",
            "found a {colour} {pet} on {street}, no collar",
            "{petname} the {pet} is back home, thank you {hood}",
            "has anyone seen a {colour} {pet} around {hood}?",
            "{pet} stuck on a roof in {hood}, ladder needed",
        ),
        ("reward", "call any time", "very friendly"),
    ),
    Topic(
        "weather",
        7,
        "hood",
        _ANY,
        (
            "{sky} over {hood}",
            "{sky} in {hood} this {part}, take a {gear}",
            "wind picking up in {hood}",
            "{light} light over {hood} right now",
            "temperature dropping fast in {hood}",
            "smells like rain in {hood}",
            "the {landmark} looks wonderful in this light",
            "{n} degrees in {hood} and people already complain",
            "could see the ferry from {street}, that clear",
            "gulls all over {street}, that means wind",
            "first {flower} of the year on {street}",
        ),
        ("#weather", "look up"),
    ),
    Topic(
        "parking",
        7,
        "street",
        _SHOPS,
        (
            "free parking on {street}, {n} spaces",
            "two parking spots just opened on {street}",
            "parking warden on {street}, move your car",
            "free charging spot by {street}, next to the {landmark}",
            "all parking full around {hood}",
        ),
        (),
        60,
    ),
    Topic(
        "sport",
        6,
        "park|sport",
        _ANY,
        (
            "{n} of us running laps, join in",
            "need a goalkeeper for five a side tonight",
            "football match tickets for sale, two seats together",
            "yoga on the grass at six, beginners welcome",
            "{team} win {result}! what a match",
            "picnic by the {landmark}, bring {drink}",
            "pool is closed for cleaning, back tomorrow",
            "the {flower}s are out and the bees are happy",
        ),
        ("#{team}", "all ages", "rain or shine"),
    ),
    Topic(
        "neighbours",
        7,
        "hood",
        _ANY,
        (
            "power cut in {hood}? lights are flickering",
            "water is off on {street}, anyone else?",
            "internet outage in {hood}, third time this week",
            "neighbours drilling again on {street}",
            "fire drill at the office in {hood}, all out on the street",
            "new mural on {street}, go and look",
            "street sweepers on {street} tomorrow, move your bikes",
            "looking for a {room} in {hood}, max {price}0 a month",
            "{person} is moving, free sofa on {street}",
            "anyone know a good plumber near {hood}?",
            "beach clean up on Saturday, gloves provided",
            "library in {hood} has a reading hour for kids at four",
        ),
        ("thanks", "asking for a friend", "please share"),
    ),
    Topic(
        "school",
        4,
        "school",
        _RUSH,
        (
            "school bus to {venue} is {n} minutes late",
            "{venue} closes at noon today",
            "bake sale at {venue} gate, all for the new library",
            "road outside {venue} is closed, walk the last bit",
            "lost a {colour} school bag near {venue}",
            "{venue} choir concert tonight, doors at six",
        ),
        ("parents please share",),
    ),
)

STORIES = (
    Story(
        34,
        14.15,
        18.2,
        ((7.75, 2.55), (7.8, 2.65), (7.6, 2.8)),
        0.5,
        (
            (
                "what is that smoke over Cooper's Wharf?",
                "smell of burning near {street}, anyone know?",
                "black smoke from the old cooperage",
            ),
            (
                "fire at the old cooperage on Kestrel Street, flames on the roof",
                "big fire at Cooper's Wharf, {n} engines here",
                "fire and smoke at the wharf, keep windows closed",
                "{street} closed at Cooper's Wharf because of the fire",
            ),
            (
                "evacuation of Wharf Primary, all children safe",
                "evacuation around Kestrel Street, go to Saltgate Hall",
                "shelter open at Saltgate Hall for people from the wharf",
                "smoke drifting over {hood}, stay inside",
                "road closed from Kestrel Street to {street}",
            ),
            (
                "firefighters getting the upper hand at the wharf",
                "water and blankets needed at Saltgate Hall shelter",
                "still smoke at Cooper's Wharf but no flames",
            ),
            (
                "fire at the wharf is out. thank you, fire crews",
                "people can return to Kestrel Street, smoke cleared",
                "Kestrel Street open again after the fire",
            ),
        ),
        ("update:", "from my window:", "can confirm:", "just passed:", "neighbour says:", "police say:", "live:"),
        ("stay safe", "hope everyone is ok", "sirens everywhere", "please share", "keep the road free", "unbelievable"),
    ),
    Story(
        10,
        8.3,
        18.7,
        ((2.0, 7.6), (3.4, 7.9), (4.5, 7.2), (5.0, 6.0), (6.0, 4.9), (7.3, 4.6), (8.2, 5.6)),
        0.15,
        (
            (
                "lost dog! Biscuit, small brown terrier, ran off near Hazel School",
                "please share: lost brown terrier called Biscuit, red collar",
            ),
            (
                "saw a small brown dog with red collar on {street}",
                "brown terrier running down {street}, too fast to catch",
            ),
            (
                "is Biscuit the lost terrier? small brown dog seen near {street}",
                "lost dog seen by the river in {hood}, red collar, brown",
            ),
            (
                "brown terrier asleep on a bench in Lantern Park, think it is Biscuit",
                "Biscuit found! the lost brown terrier is safe in Lantern Park",
            ),
        ),
        ("two minutes ago:", "for Greta:"),
        ("poor thing", "looked scared", "not my dog"),
    ),
    Story(
        30,
        18.5,
        22.5,
        ((2.0, 2.2), (5.0, 2.8), (8.0, 2.9), (11.0, 3.4)),
        1.5,
        (
            (
                "storm warning for the harbour tonight, tie up your boats",
                "dark clouds over the bay, storm coming",
                "wind is strong on {street}, bins flying",
            ),
            (
                "storm hits {hood}, heavy rain and wind",
                "thunder and lightning over the harbour",
                "power cut on {street}, whole block dark",
                "tree down on {street}, road closed",
            ),
            (
                "flood water on {street}, ankle deep",
                "harbour wall overtopped, flood in {hood}",
                "power outage in {hood} after the storm",
                "cellar flooded in {hood}, need a pump",
                "trams stopped by flood on {street}",
            ),
            (
                "storm moving east, rain easing in {hood}",
                "power is back in {hood}",
                "flood water going down on {street}",
            ),
        ),
        ("update:", "wow:", "from the roof:", "live:", "radio says:"),
        ("stay inside", "take care out there", "scary", "cats are hiding", "{n} minutes now", "anyone with candles?"),
    ),
    Story(
        16,
        9.5,
        13.5,
        ((2.4, 4.2), (4.1, 4.3), (6.1, 4.1), (7.4, 4.5), (9.6, 4.6)),
        0.1,
        (
            (
                "Lantern Avenue closed from ten for the lantern parade",
                "parade setting up on Lantern Avenue, road closed",
            ),
            (
                "lantern parade passing {hood}, drums and all",
                "whole of {hood} is out for the parade",
                "parade crossing {street}, buses diverted",
            ),
            (
                "parade tail now in {hood}, road opens behind it",
                "sweepers out, Lantern Avenue open again in {hood}",
            ),
        ),
        ("parade update:", "heads up:"),
        ("kids love it", "so loud", "best day of the year", "take the {other_street}", "{n} drummers!"),
        True,
    ),
    Story(
        10,
        18.8,
        23.2,
        ((7.9, 4.35), (7.9, 4.35)),
        0.2,
        (
            (
                "queue round the block for Ida Quill at Lamplighter Hall",
                "jazz tonight: Ida Quill at Lamplighter Hall",
                "spare ticket for Ida Quill live jazz tonight",
            ),
            (
                "Ida Quill live at Lamplighter Hall, best jazz concert in years",
                "second set at Lamplighter Hall, live jazz by candle light",
            ),
            (
                "what a concert. Ida Quill, thank you",
                "jazz crowd heading to Blue Stair for the late session",
            ),
        ),
        ("here now:", "wow:"),
        ("goosebumps", "with {person}", "what a voice", "row {n}", "do not miss it"),
    ),
)

SLOTS = {
    "good": (
        "amazing", "really good", "outstanding", "lovely", "the best in town", "perfect", "surprisingly good", "unreal",
    ),
    "meh": ("not great", "overpriced", "a bit cold", "nothing special", "too salty", "fine, nothing more"),
    "dish": (
        "ramen", "miso ramen", "sushi", "noodles", "dumplings", "fish tacos", "mushroom pie", "curry", "udon",
        "grilled mackerel", "chickpea stew", "pizza", "bean burger", "noodle soup", "crab roll", "tandoori plate",
    ),
    "drink": ("lemonade", "iced tea", "cider", "ginger beer", "a cold one", "tea"),
    "bake": ("croissant", "cinnamon bun", "sourdough roll", "rye bun", "plum tart", "walnut slice", "cardamom knot"),
    "person": ("Mira", "Jonas", "Adaeze", "Pilar", "Tom", "Yuki", "Farid", "Lena", "Oskar", "Noor", "Sanna"),
    "vehicle": ("truck", "tram", "van", "delivery bike", "bus", "tour coach"),
    "other_street": ("Orchard Ring", "Wendside", "Tanner Lane", "Glass Row", "Easter Mile", "North Causeway"),
    "genre": ("jazz", "folk", "techno", "blues", "brass", "indie", "swing", "soul"),
    "band": ("The Tin Herons", "Ida Quill", "Low Tide Choir", "Paper Engines", "Dockside Nine", "Moth & Bell"),
    "sale": ("Big sale", "Flash sale", "Sale", "Closing down sale", "Spring sale"),
    "percent": ("ten", "20", "30", "40", "50", "70"),
    "goods": (
        "bikes", "bike", "records", "books", "lamps", "boots", "coats", "chairs", "guitar", "tea sets", "plants",
        "camera", "toys", "rain jackets",
    ),
    "colour": ("red", "blue", "grey", "green", "black", "white", "orange", "brown", "yellow"),
    "pet": ("cat", "dog", "parrot", "rabbit", "tortoise", "kitten", "spaniel"),
    "petname": ("Pepper", "Mochi", "Captain", "Olive", "Button", "Ziggy", "Plum"),
    "sky": ("Clear sky", "Drizzle", "Low clouds", "Bright sun", "Rainbow", "Sea fog", "Light rain", "Hazy sun"),
    "light": ("pink", "golden", "silver", "strange green", "soft"),
    "part": ("morning", "afternoon", "evening"),
    "gear": ("coat", "hat", "brolly", "scarf"),
    "flower": ("bluebell", "poppy", "foxglove", "cherry blossom", "lavender", "tulip"),
    "landmark": ("fountain", "old crane", "bandstand", "clock tower", "boat house", "weir"),
    "team": ("Harriers", "Dockers", "Larks"),
    "result": ("1 to 0", "2 to 1", "3 to 1", "2 to 0", "4 to 3"),
    "room": ("room", "small flat", "studio", "garage"),
}  # fmt: skip
