def fizz(n: int, words: Dict[int, str]) -> List[str]:
    out: List[str] = []
    for i in range(1, n + 1):
        s = ""
        for k in words:
            if i % k == 0: s += words[k]
        out.append(s if len(s) > 0 else str(i))
    return out
