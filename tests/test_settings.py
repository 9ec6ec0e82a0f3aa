"""The configuration: what may be written, what a mistake is told, and what stays secret."""

from __future__ import annotations

import pathlib
import traceback
from typing import Any

import pytest

from datasette_ingest.ingest.settings import RULE_TARGETS, CrawlSettings
from datasette_ingest.ingest.types import INGEST_TYPES
from datasette_ingest.settings import JOB_SETTINGS, Settings, SettingsError, load, override

BROKER = {"bootstrap": "kafka.example.org:9092"}
RULE = {"name": "ours", "target": "pdf", "place": "meta", "key": "our_pdf"}


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("timeout", 5, 5.0),
        ("max_body_bytes", 1e9, 1_000_000_000),
        ("per_host_delay", 0, 0.0),
        ("blocklist", "one.example", ("one.example",)),
        ("blocklist", ["one.example", "two.example"], ("one.example", "two.example")),
        ("robots", "ignore", "ignore"),
        ("contact", None, None),
        ("allow", {"id": "root"}, {"id": "root"}),
        ("allow", False, False),
        ("kafka", None, None),
        ("fulltext", True, True),
        ("http2", False, False),
        ("proxy", "http://proxy.example:3128", "http://proxy.example:3128"),
    ],
)
def test_a_value_is_taken_as_json_and_yaml_write_it(key: str, value: Any, found: Any) -> None:
    taken = getattr(load({key: value}), key)
    assert (taken, type(taken)) == (found, type(found))


@pytest.mark.parametrize(
    "network",
    [
        "10.0.0.0/8", "127.0.0.0/8:8080", "127.0.0.1:8080", "127.0.0.1", "::1/128", "::1", "fd00::/8",
        "[fd00::/8]:443", "[::1]:80", "[::1]",
    ],
)  # fmt: skip
def test_every_form_of_a_network_is_taken_by_the_configuration_and_by_the_crawler(network: str) -> None:
    assert load({"allow_networks": [network]}).allow_networks == (network,)
    assert CrawlSettings(allow_networks=(network,)).allow_networks == (network,)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"colour": "red"}, "datasette-ingest has no setting 'colour'. Settings: allow, allow_networks, "),
        ({5: "red"}, "datasette-ingest has no setting 5. Settings: "),
        ({"concurrency": 0}, "concurrency: expected a number of at least 1, not 0"),
        ({"concurrency": "many"}, "concurrency: expected a whole number, not 'many'"),
        ({"concurrency": True}, "concurrency: expected a whole number, not True"),
        ({"concurrency": 1.5}, "concurrency: expected a whole number, not 1.5"),
        ({"concurrency": None}, "concurrency: a value is missing"),
        ({"timeout": 0}, "timeout: expected a number of at least 0.001, not 0"),
        ({"timeout": "5"}, "timeout: expected a number, not '5'"),
        ({"per_host_delay": float("inf")}, "per_host_delay: expected a number, not inf"),
        ({"run_jobs": "no"}, "run_jobs: expected true or false, not 'no'"),
        ({"contact": 5}, "contact: expected text, not 5"),
        ({"contact": "a\r\nb"}, "contact: 'a\\r\\nb' cannot be sent in a header: write one line of text"),
        ({"blocklist": 5}, "blocklist: expected a list, not 5"),
        ({"blocklist": ["a", 5]}, "blocklist: expected a list of texts; 5 is not text"),
        ({"robots": "maybe"}, "robots: expected obey or ignore, not 'maybe'"),
        ({"allow": 5}, "allow: expected a Datasette allow block, such as {id: root}, or true or false"),
        ({"sources": []}, "sources: name at least one source, such as live"),
        ({"sources": ["gopher"]}, "sources: unknown source 'gopher'; known are live, wayback, spn2"),
        ({"allow_networks": ["home"]}, "allow_networks: 'home' is not a network; write an address range such as "),
        ({"allow_networks": ["10.0.0.1:0"]}, "allow_networks: '10.0.0.1:0' is not a network; write "),
        ({"doi_resolver": "ftp://h/"}, "doi_resolver: expected an http or https URL, such as "),
        ({"spool_dir": "/no/such/folder"}, "spool_dir: '/no/such/folder' is not a directory"),
        ({"rules": [5]}, "rules: expected a list of rules, each with a name, a place and what to look for"),
        ({"rules": [{**RULE, "place": "moon"}]}, "rules: 'ours': place must be one of "),
        ({"http2": True, "proxy": "http://p/"}, "http2: not available through a proxy; remove one of http2 and proxy"),
        ({"store": 5}, "store: expected text, not 5"),
        ({"store": ""}, "store: expected the path of a folder, or s3://bucket/prefix"),
        ({"store": " "}, "store: expected the path of a folder, or s3://bucket/prefix"),
        ({"store": "a\0b"}, "store: expected the path of a folder, or s3://bucket/prefix"),
        ({"store": "file:///srv"}, "store: expected the path of a folder, or s3://bucket/prefix with the name of "),
        ({"store": "s3:///x"}, "store: expected the path of a folder, or s3://bucket/prefix with the name of a bucket"),
        ({"store": "s3://"}, "store: expected the path of a folder, or s3://bucket/prefix with the name of a bucket"),
        ({"store": "s3:bodies"}, "store: expected the path of a folder, or s3://bucket/prefix with the name of "),
        ({"store": "https://s3.example/b"}, "store: expected the path of a folder, or s3://bucket/prefix with the "),
        ({"store": "s3://bodies/a/../b"}, "store: a prefix may not have a part that is . or .."),
        ({"store": __file__}, f"store: {__file__!r} is not a folder"),
        ({"store_endpoint": "s3.example"}, "store_endpoint: expected the http or https URL of a service, such as "),
        (
            {"store_endpoint": "https://k:hunter2@h"},
            "store_endpoint: expected the http or https URL of a service, such",
        ),
        ({"store_endpoint": "https://h/?a"}, "store_endpoint: expected the http or https URL of a service, such as "),
        ({"store_region": "eu west"}, "store_region: 'eu west' is not the name of a region; write one such as "),
        ({"kafka": 5}, "kafka: expected settings, such as {bootstrap: kafka.example.org:9092}"),
        ({"kafka": {}}, "kafka: bootstrap: name at least one broker, such as kafka.example.org:9092"),
        ({"kafka": {"bootstrap": []}}, "kafka: bootstrap: name at least one broker"),
        ({"kafka": {"bootstrap": "h"}}, "kafka: bootstrap: expected addresses of brokers, such as "),
        ({"kafka": {"bootstrap": ["h:1", 5]}}, "kafka: bootstrap: expected a list of texts; 5 is not text"),
        ({"kafka": {**BROKER, "group": "x"}}, "kafka: there is no 'group'; write bootstrap, prefix, env, partitions, "),
        ({"kafka": {**BROKER, "prefix": "a.b"}}, "kafka: prefix: 'a.b' cannot begin a topic's name: write letters, "),
        ({"kafka": {**BROKER, "partitions": 0}}, "kafka: partitions: expected a number of at least 1, not 0"),
        ({"kafka": {**BROKER, "session_seconds": "6"}}, "kafka: session_seconds: expected a number, not '6'"),
        ({"kafka": {**BROKER, "security_protocol": "TLS"}}, "kafka: security_protocol: expected PLAINTEXT, SSL, "),
        (
            {"kafka": {**BROKER, "sasl_username": "u"}},
            "kafka: sasl_username: sign in with sasl_username, sasl_password",
        ),
        ({"spn2_access_key": {"$env": "NO_SUCH"}}, "spn2_access_key: the environment variable NO_SUCH is not set"),
        ({"proxy": {"$file": "/no/such"}}, "proxy: cannot read /no/such: No such file or directory"),
    ],
)
def test_a_mistake_is_told_in_a_sentence_that_names_the_setting(given: dict[Any, Any], sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(given)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("proxy", "http://me:hunter2@proxy.example"),
        ("spn2_secret_key", "hunter2"),
        ("spn2_access_key", ["hunter2"]),
        ("store_secret_key", "hunter2"),
        ("store_access_key", "hunter2"),
    ],
)
def test_a_secret_that_is_written_out_is_refused_and_not_repeated(key: str, value: Any) -> None:
    with pytest.raises(
        SettingsError, match=rf'^{key}: write (it|an address with a password) as {{"\$env": "NAME"}}'
    ) as caught:
        load({key: value})
    assert "hunter2" not in str(caught.value) and caught.value.__suppress_context__


@pytest.mark.parametrize("name", ["sasl_password", "ssl_key_password"])
@pytest.mark.parametrize("value", ["hunter2", ["hunter2"], {"text": "hunter2"}])
def test_a_password_of_kafka_is_one_of_them(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=rf'^kafka: {name}: write it as {{"\$env": "NAME"}}') as caught:
        load({"kafka": {**BROKER, name: value}})
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_the_brokers_belong_to_a_process_and_their_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_SECRET", "hunter2")
    signed_in = {"security_protocol": "SASL_SSL", "sasl_username": "us", "sasl_password": {"$env": "OUR_SECRET"}}
    settings = load({"kafka": {"bootstrap": "a:1, b:2", "session_seconds": 6, **signed_in}})
    assert settings.kafka is not None and settings.kafka.sasl_password is not None
    assert settings.kafka.bootstrap == ("a:1", "b:2")
    assert settings.kafka.sasl_password.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(settings) and "kafka" not in JOB_SETTINGS


def test_a_secret_comes_from_the_environment_or_a_file_and_is_not_shown(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_PROXY", "http://me:hunter2@proxy.example")
    (tmp_path / "proxy").write_text("http://me:hunter2@proxy.example\n", "utf-8")
    for reference in ({"$env": "OUR_PROXY"}, {"$file": str(tmp_path / "proxy")}):
        settings = load({"proxy": reference})
        assert settings.proxy == "http://me:hunter2@proxy.example"
        assert "hunter2" not in repr(settings) + repr(settings.crawl())


@pytest.mark.parametrize(
    "address",
    ["http://me:hunter2#@p", "me:hunter2@p:80", "http://me:hun ter2@p:x", "//me:hunter2@p", "//[me:hunter2@p"],
)
def test_a_proxy_that_is_no_url_is_refused_without_its_password(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("OUR_PROXY", address)
    for given in (
        {"proxy": {"$env": "OUR_PROXY"}},
        {"proxy": [address]},
        {"proxy": {"url": address}},
        {"proxy": address},
    ):
        with pytest.raises(SettingsError) as caught:
            load(given)
        assert "ter2" not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(SettingsError) as caught:
        load({"doi_resolver": address})
    assert "ter2" not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(SettingsError, match="has no setting") as caught:
        load({f"proxy={address}": 1})
    assert "ter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("s3://bodies", "s3://bodies"),
        ("s3://bodies/", "s3://bodies"),
        ("s3://bodies//a//b c/", "s3://bodies/a/b c"),
        ("s3://my.bodies_2/%41/größe?#", "s3://my.bodies_2/%41/größe?#"),
        ("/srv//bodies/", "/srv/bodies"),
        ("/srv/50% größe", "/srv/50% größe"),
        ("bodies", str(pathlib.Path.cwd() / "bodies")),
        ("./a/../s3", str(pathlib.Path.cwd() / "s3")),
        ("~/bodies", str(pathlib.Path.home() / "bodies")),
    ],
)
def test_a_store_is_a_folder_wherever_the_process_goes_or_a_bucket(given: str, taken: str) -> None:
    assert load({"store": given}).store == taken
    assert load({"store": taken}).store == taken, "settings are read again by another model"


def test_no_password_in_a_store_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    address = "s3://key:hunter2@bodies/x"
    with pytest.raises(SettingsError) as caught:
        load({"store": address})
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
    monkeypatch.setenv("OUR_SECRET", "hunter2")
    with pytest.raises(SettingsError, match="store_access_key: it needs store_secret_key") as caught:
        load({"store": "s3://bodies", "store_secret_key": {"$env": "OUR_SECRET"}})
    both = {name: {"$env": "OUR_SECRET"} for name in ("store_access_key", "store_secret_key")}
    assert "hunter2" not in str(caught.value) + repr(load({"store": "s3://bodies", **both}).crawl())


def test_a_bucket_needs_the_library_of_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"store: a library is missing; pip install 'datasette-ingest\[s3\]'"):
        load({"store": "s3://bodies"})
    assert load({"store": "/srv/bodies"}).store == "/srv/bodies"


@pytest.mark.parametrize(
    ("key", "meant"), [("stroe", "store"), ("allow_network", "allow_networks"), ("Timeout", "timeout")]
)
def test_a_misspelt_setting_is_told_the_one_that_was_meant(key: str, meant: str) -> None:
    with pytest.raises(SettingsError, match=f"no setting '{key}'. Did you mean '{meant}'. Settings: allow, "):
        load({key: "x"})


def test_values_are_replaced_and_checked_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_PROXY", "http://me:hunter2@proxy.example")
    settings = load({"proxy": {"$env": "OUR_PROXY"}, "rules": [RULE], "timeout": 5})
    changed = override(settings, {"timeout": 6, "rules": []})
    assert (changed.proxy, changed.rules, changed.timeout) == (settings.proxy, (), 6.0)
    with pytest.raises(SettingsError, match="timeout: expected a number of at least"):
        override(settings, {"timeout": -1})
    with pytest.raises(SettingsError, match="http2: not available through a proxy"):
        override(settings, {"http2": True})


def test_jobs_share_a_crawler_by_the_crawlers_settings_alone() -> None:
    one, other = load({"rules": [RULE], "max_age_days": 1}), load({"rules": [RULE], "max_age_days": 2})
    assert hash(one.crawl()) == hash(other.crawl()) and one.crawl() == other.crawl()
    assert one.crawl() != load({"timeout": 5}).crawl()
    assert type(one.crawl()) is CrawlSettings and one.crawl(["live"]).sources == ("live",)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"user_agent": "robin/1"}, "robin/1"),
        ({"user_agent": "robin/1", "contact": "https://h/"}, "robin/1 (+https://h/)"),
    ],
)
def test_the_user_agent_carries_the_contact(given: dict[str, Any], shown: str) -> None:
    assert load(given).full_user_agent == shown
    assert load({}).full_user_agent.startswith("datasette-ingest/")


def test_every_setting_is_described_and_a_job_stores_no_permission_of_the_process() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []
    assert set(Settings.model_fields) > JOB_SETTINGS > {"timeout", "contact", "rules", "max_age_days"}
    assert not JOB_SETTINGS & {"allow_networks", "proxy", "insecure_hosts", "spool_dir", "allow", "run_jobs", "cdx_url"}
    assert not JOB_SETTINGS & {name for name in Settings.model_fields if name.startswith("store")}


def test_a_rule_may_lead_to_every_type_that_is_one_file() -> None:
    assert {name for name, kind in INGEST_TYPES.items() if kind.mimetypes} == RULE_TARGETS


@pytest.mark.parametrize(
    "wrong", ["data.example.org", "https://data.example.org/", "https://a@b.org", "*", "https://*.org", "ftp://a.org"]
)
def test_a_trusted_origin_is_a_scheme_and_a_host(wrong):
    with pytest.raises(SettingsError, match="is no origin"):
        load({"trusted_origins": [wrong]})
    assert load({"trusted_origins": ["https://data.example.org:8443", "null"]}).trusted_origins[1] == "null"
