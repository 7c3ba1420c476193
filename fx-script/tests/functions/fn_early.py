def early(x: Tensor, kind: int) -> Tensor:
    if kind == 0: return x
    for i in range(10):
        if i == kind: return x + i
        if i == 7: break
        if i % 2 == 1: continue
        x = x * 1.5
        while True:
            x = x - 1
            if bool(x.sum() < 0): return x - 100
            if i > 3: break
            if bool(x.max() > 5): continue
            break
    else_ = x * 0
    if kind < 0: return else_
    return x
