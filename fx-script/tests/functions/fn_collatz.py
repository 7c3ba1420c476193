def collatz(n: int) -> Tuple[int, int]:
    steps, top = 0, n
    while n != 1:
        if n % 2 == 0: n = n // 2
        else: n = 3 * n + 1
        if n > top: top = n
        steps += 1
    return steps, top
