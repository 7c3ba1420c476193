def numbers(a: int, b: int, x: float, y: float) -> Tuple[List[int], List[float], List[bool]]:
    i = [a + b, a - b, a * b, a // b, a % b, -a, abs(a), min(a, b), max(a, b), a & b, a | b, a ^ b, a << 2, a >> 1, int(x), round(x) if False else int(math.floor(y)), math.gcd(a, b)]
    f = [x + y, x - a, x * y, x / y, a / b, x // y, x % y, a % y, x ** 2.0, float(a) ** 0.5, math.sqrt(abs(x)), math.floor(x) + 0.5, math.exp(y), math.log(abs(x) + 1), math.pi, abs(x), min(x, y), max(x, float(a)), float(b), math.atan2(x, y), math.fmod(x, y), float(round(x))]
    b_ = [a < b, x <= y, a == b, x != y, not (a > 0), a > 0 and x > 0, a > 0 or x > 0, bool(a), math.isnan(x), a in [1, 2, 3], 1 < a < 9]
    return i, f, b_
