from callgate.caching import BoundedCache


def test_the_least_recently_used_goes_first():
    cache = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), len(cache)) == (1, None, 3, 2)
    cache.put("a", 4)
    assert (cache.get("a"), len(cache)) == (4, 2)


def test_what_is_kept_weighs_no_more_than_the_bound():
    cache = BoundedCache(10, len)
    for key in "abcd":
        cache.put(key, b"xxxx")
    assert [key for key in "abcd" if cache.get(key)] == ["c", "d"]
    cache.put("d", b"xxxxxxxx")
    assert [key for key in "abcd" if cache.get(key)] == ["d"]
    assert cache.put("e", b"x" * 11) == b"x" * 11
    assert cache.get("e") is None
    assert cache.get("d") == b"xxxxxxxx"


def test_a_value_is_made_once():
    cache, made = BoundedCache(2), []

    def make():
        made.append(1)
        return "value"

    assert [cache.get_or_make("a", make) for _ in range(3)] == ["value"] * 3
    assert made == [1]
