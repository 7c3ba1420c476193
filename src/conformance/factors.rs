//! Factors of matrices, which are unique up to signs and up to bases of what the matrix does not determine.
//!
//! They are compared by what they are defined by: the values themselves, the angles between the vectors, and
//! their product.

use super::close;
use crate::prelude::*;
use crate::{Result, Tensor, Value, bail};

/// Factors that are not unique.
#[derive(Clone, Copy)]
pub(super) enum Factors {
    /// `(u, s, vh)`, whose product is the matrix.
    Singular,
    /// `(values, vectors)` of a symmetric matrix.
    Symmetric,
}

impl Factors {
    /// Returns what an operator of PyTorch's name gives, if it is not unique.
    pub(super) fn of(name: &str) -> Option<Factors> {
        match name {
            "linalg.svd" => Some(Factors::Singular),
            "linalg.eigh" => Some(Factors::Symmetric),
            _ => None,
        }
    }

    /// Compares factors with the expected ones.
    pub(super) fn compare(self, got: &Value, expected: &Value) -> Result<()> {
        let (got, expected) = (self.described(got)?, self.described(expected)?);
        got.iter().zip(&expected).try_for_each(|((what, got), (_, expected))| {
            close(got, expected).map_err(|error| crate::err!(Check, "{what}: {}", error.message()))
        })
    }

    /// Returns what defines the factors.
    fn described(self, factors: &Value) -> Result<Vec<(&'static str, Tensor)>> {
        let tensors: Vec<Tensor> = factors.leaves().into_iter().cloned().collect();
        let angles_of_columns = |x: &Tensor| x.mT().matmul(x);
        Ok(match (self, &tensors[..]) {
            (Factors::Singular, [u, s, vh]) => {
                let k = s.dim(-1);
                let product = (u.narrow(-1, 0, k.clone()) * s.unsqueeze(-2)).matmul(vh.narrow(-2, 0, k));
                vec![
                    ("singular values", s.clone()),
                    ("u.mT @ u", angles_of_columns(u)),
                    ("vh @ vh.mT", vh.matmul(vh.mT())),
                    ("u @ diag(s) @ vh", product),
                ]
            }
            (Factors::Symmetric, [values, vectors]) => vec![
                ("eigenvalues", values.clone()),
                ("vectors.mT @ vectors", angles_of_columns(vectors)),
                (
                    "vectors @ diag(values) @ vectors.mT",
                    (vectors * values.unsqueeze(-2)).matmul(vectors.mT()),
                ),
            ],
            _ => bail!(Check, "expected factors, got {} tensors", tensors.len()),
        })
    }
}
