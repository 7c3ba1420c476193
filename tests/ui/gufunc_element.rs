// A dtype that signatures do not have.
fx::gufunc! {
    /// Operations.
    pub trait Own; pub static OWN;

    /// The first element.
    first(x: u32[n]) -> (out: i64[]) {
        out[0] = x[0] as i64;
    }
}

fn main() {}
