"""The same with unittest: python -m unittest unittests."""

import unittest

from shop import app, outbox, signup, welcome

from treadle.testing import TreadleMixin


class SignupTest(TreadleMixin, unittest.TestCase):
    treadle_app = app

    def setUp(self) -> None:
        super().setUp()
        outbox.clear()

    def test_signup(self) -> None:
        signup(7)
        self.treadle.assert_enqueued(welcome, user_id=7)
        assert self.treadle.drain().completed == 1
        assert outbox == ["welcome 7"]

    def test_nothing_is_left(self) -> None:
        self.treadle.assert_not_enqueued(welcome)


class AsyncTest(TreadleMixin, unittest.IsolatedAsyncioTestCase):
    treadle_app = "shop:app"

    async def test_signup(self) -> None:
        await welcome.aenqueue(user_id=7)
        await self.treadle.aassert_enqueued(welcome, user_id=7)
        assert (await self.treadle.adrain()).completed == 1
