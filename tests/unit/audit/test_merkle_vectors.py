"""The reference tree of Certificate Transparency (RFC 6962), leaf by leaf."""

from callgate.audit import merkle
from callgate.audit.proofs import Tiles
from support.table import rows

INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


@rows("size", range(9))
def test_reference_roots(size):
    grown = Tiles(0, lambda level, number: b"")
    grown.append([merkle.leaf_hash(bytes.fromhex(one)) for one in INPUTS[:size]])
    assert grown.root().hex() == ROOTS[size]


def test_reference_inclusion_proof():
    path = [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]
    leaf = merkle.leaf_hash(bytes.fromhex(INPUTS[5]))
    assert merkle.includes(leaf, 5, 8, [bytes.fromhex(step) for step in path], bytes.fromhex(ROOTS[8]))


def test_reference_consistency_proof():
    path = [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]
    steps = [bytes.fromhex(step) for step in path]
    assert merkle.extends(6, 8, bytes.fromhex(ROOTS[6]), bytes.fromhex(ROOTS[8]), steps)
