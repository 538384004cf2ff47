"""Random Python kernels of one work-item, for comparison with Python itself."""

FLOATS, INTS = ("a", "b", "c"), ("i", "j", "k")


class Programs:
    """Writes one program with `random`; integers stay small, and nothing divides by 0."""

    def __init__(self, random):
        self.random = random
        self.fresh = 0

    def text(self):
        lines = [
            "def helper(p, q):",
            *self.block(1, 0, loop=False, helper=True),
            "    return p",
            "def kernel(x, n, y):",
            "    a, b = x[0], x[1]",
            "    i, j = n[0], n[1]",
            *self.block(1, 0, loop=False),
            "    y[0] += a",
            "    y[1] += i",
        ]
        return "\n".join(lines) + "\n"

    def block(self, depth, nesting, *, loop, helper=False):
        count = self.random.randint(1, 4)
        lines = []
        for _ in range(count):
            lines += self.statement(depth, nesting, loop=loop, helper=helper)
        return lines

    def statement(self, depth, nesting, *, loop, helper):
        pad = "    " * depth
        kinds = ["float", "float", "int", "int", "aug", "store"]
        if nesting < 3:
            kinds += ["if", "if", "for", "while", "forever"]
        if loop:
            kinds += ["leave", "leave"]
        if helper:
            kinds = ["helper", "helper", "helper_if"] if nesting < 2 else ["helper"]
        return getattr(self, "_" + self.random.choice(kinds))(pad, depth, nesting, loop)

    def _float(self, pad, *_):
        if self.random.random() < 0.2:
            return [f"{pad}a, b = {self.number()}, {self.number()}"]
        return [f"{pad}{self.random.choice(FLOATS)} = {self.number()}"]

    def _int(self, pad, *_):
        return [f"{pad}{self.random.choice(INTS)} = ({self.integer()}) % 23"]

    def _aug(self, pad, *_):
        if self.random.random() < 0.5:
            return [
                f"{pad}{self.random.choice(FLOATS[:2])} {self.choose('+ - *')}= {self.number(1)}"
            ]
        return [f"{pad}{self.random.choice(INTS[:2])} += {self.integer(1)}"]

    def _store(self, pad, *_):
        return [f"{pad}y[({self.integer(1)}) % 8] {self.choose('= += -=')} {self.number(1)}"]

    def _if(self, pad, depth, nesting, loop):
        lines = [f"{pad}if {self.condition()}:", *self.block(depth + 1, nesting + 1, loop=loop)]
        if self.random.random() < 0.3:
            lines += [f"{pad}elif {self.condition()}:"]
            lines += self.block(depth + 1, nesting + 1, loop=loop)
        if self.random.random() < 0.5:
            lines += [f"{pad}else:", *self.block(depth + 1, nesting + 1, loop=loop)]
        return lines

    def _for(self, pad, depth, nesting, _):
        start, stop = self.random.choice(["0, ", "j % 4, ", "-2, "]), self.choose("4 i%5 7")
        step = self.random.choice(["", ", 2", ", -1", ", j % 3 + 1"])
        lines = [f"{pad}for {self.random.choice('ijkm')} in range({start}{stop}{step}):"]
        return lines + self.block(depth + 1, nesting + 1, loop=True)

    def _while(self, pad, depth, nesting, _):
        self.fresh += 1
        name = f"w{self.fresh}"
        lines = [f"{pad}{name} = 0", f"{pad}while {name} < 5 and {self.condition()}:"]
        lines += [f"{pad}    {name} += 1"]
        return lines + self.block(depth + 1, nesting + 1, loop=True)

    def _forever(self, pad, depth, nesting, _):
        self.fresh += 1
        name = f"w{self.fresh}"
        lines = [f"{pad}{name} = 0", f"{pad}while True:", f"{pad}    {name} += 1"]
        lines += [f"{pad}    if {name} > 4:", f"{pad}        {self.choose('break break return')}"]
        return lines + self.block(depth + 1, nesting + 1, loop=True)

    def _leave(self, pad, *_):
        what = self.choose("break continue return break continue")
        return [f"{pad}if {self.condition()}:", f"{pad}    {what}"]

    def _helper(self, pad, *_):
        return [self.random.choice([f"{pad}p = p * 0.5 + q", f"{pad}q = q - p", f"{pad}p += 1"])]

    def _helper_if(self, pad, depth, nesting, _):
        condition = self.random.choice(["p > q", "p < 0.25", "not q > 1", "p > 0 and q < 2"])
        body = self.block(depth + 1, nesting + 1, loop=False, helper=True)
        leave = self.random.choice(["p", "q", "p + q", "1", "p if p > 0 else q"])
        tail = [f"{pad}    return {leave}"] if self.random.random() < 0.6 else []
        return [f"{pad}if {condition}:", *body, *tail]

    def number(self, depth=0):
        kinds = ["v", "v", "x", "lit"] + (["bin", "bin", "if", "call", "cast"] if depth < 2 else [])
        match self.random.choice(kinds):
            case "v":
                return self.random.choice([*FLOATS[:2] * 6, *FLOATS])
            case "x":
                return f"x[({self.integer(depth + 1)}) % 8]"
            case "lit":
                return self.choose("0.5 1.25 -2.0 3.0")
            case "bin":
                return f"({self.number(depth + 1)} {self.choose('+ - *')} {self.number(depth + 1)})"
            case "if":
                condition = self.condition(depth + 1)
                return f"({self.number(depth + 1)} if {condition} else {self.number(depth + 1)})"
            case "call":
                arguments = f"{self.number(depth + 1)}, {self.number(depth + 1)}"
                return f"{self.random.choice(['helper', 'min', 'max'])}({arguments})"
            case _:
                return f"(x[2] + {self.random.choice(INTS[:2])})"

    def integer(self, depth=0):
        kinds = ["v", "v", "lit", "n"] + (["bin", "bin", "if"] if depth < 2 else [])
        match self.random.choice(kinds):
            case "v":
                return self.random.choice(INTS[:2])
            case "n":
                return "n[2]"
            case "lit":
                return str(self.random.randint(-3, 9))
            case "bin":
                left, right = self.integer(depth + 1), self.integer(depth + 1)
                divide = f"{self.choose('// %')} {self.random.randint(2, 7)} +"
                return f"({left} {self.random.choice([*'+-*&|^', divide, divide])} {right})"
            case _:
                left, right = self.integer(depth + 1), self.integer(depth + 1)
                return f"({left} if {self.condition(depth + 1)} else {right})"

    def condition(self, depth=0):
        kinds = ["f", "f", "i", "i"] + (["and", "or", "not", "chain"] if depth < 2 else [])
        match self.random.choice(kinds):
            case "f":
                return f"{self.number(depth + 2)} {self.choose('< > <= >= == !=')} {self.number(2)}"
            case "i":
                return f"{self.integer(depth + 2)} {self.choose('< > == !=')} {self.integer(2)}"
            case "not":
                return f"not ({self.condition(depth + 1)})"
            case "chain":
                return f"{self.integer(2)} < {self.integer(2)} <= {self.integer(2)}"
            case word:
                return f"({self.condition(depth + 1)} {word} {self.condition(depth + 1)})"

    def choose(self, words):
        return self.random.choice(words.split())
