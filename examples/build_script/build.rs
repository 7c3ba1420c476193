//! Writes the code of the model in `model.pt2`.

fn main() -> Result<(), fx::Error> {
    fx::build::emit("model.pt2")
}
