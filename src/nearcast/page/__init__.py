"""A map of messages and subscriptions as one page of HTML: no network, no library, opens in any browser.

`page.html` draws it; `draw` puts data into that page. `Map` is what callers get, from `Broker.map()` (a moment) and
from `nearcast.report()` (a run, to replay).
"""
