"""Examples of the rule of the same name."""

from tests.policy.examples.declare import allowing

PASSING = {
    "ordinary": allowing("allowed.test", "*.wild.test", "dns.googleapis.com", "www.quad9.net"),
    "a word that begins alike": allowing("dohertys.example.com", "notdns.google.test"),
    "an ordinary address": allowing("198.51.100.10", "2001:db8::10"),
    "wildcard with the resolver denied": allowing("*.umbrella.com", deny=["dns.umbrella.com"]),
}
FAILING = {
    "google": allowing("dns.google"),
    "below": allowing("x.dns.nextdns.io"),
    "cloudflare": allowing("cloudflare-dns.com"),
    "for a browser": allowing("mozilla.cloudflare-dns.com"),
    "one": allowing("one.one.one.one"),
    "quad9": allowing("dns.quad9.net"),
    "by wildcard": allowing("*.quad9.net"),
    "wildcard on it": allowing("*.cloudflare-dns.com"),
    "by its label": allowing("doh.example.org"),
    "by a label with a number": allowing("doh2.example.org"),
    "by a compound label": allowing("eu-doh.example.org"),
    "by its address": allowing("1.1.1.1"),
    "by its IPv6 address": allowing("2606:4700:4700::1111"),
    "beside good ones": allowing("allowed.test", "dns.adguard-dns.com"),
    "another one denied": allowing("*.quad9.net", deny=["dns.google"]),
}
CONFIGURED = {
    "failing": ({"resolvers": ["names.example.org"]}, allowing("names.example.org")),
    "passing": ({"resolvers": ["names.example.org"]}, allowing("example.org")),
}
