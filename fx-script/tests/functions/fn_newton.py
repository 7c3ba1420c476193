def newton(a: Tensor, tol: float = 1e-6, limit: int = 50) -> Tuple[Tensor, int]:
    x = torch.ones_like(a); n = 0
    while bool((x * x - a).abs().max() > tol) and n < limit:
        x = 0.5 * (x + a / x); n += 1
    return x, n
