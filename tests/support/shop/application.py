from treadle import Treadle

app = Treadle()
app.discover("tests.support.shop")
