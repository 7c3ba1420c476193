//! Eigenvalues and singular values, by what they rebuild.

use fx_core::{Arg, Array, DType};

use crate::testing::{Operand, call1, close, matrix, parts, tensor};

fn turned(x: &Array) -> Array {
    x.transpose(x.rank() - 2, x.rank() - 1).unwrap().contiguous().unwrap()
}

#[test]
fn singular_vectors_rebuild_the_matrix_and_are_orthonormal() {
    for (m, n) in [(4, 4), (5, 3), (3, 5), (1, 3)] {
        let x = matrix(2, m, n);
        let [u, s, v] = &parts("linalg_svd", &[tensor(x.clone()), Arg::Bool(false)])[..] else { panic!() };
        let scaled = u.mul(&s.unsqueeze(1).unwrap()).unwrap();
        close(&scaled.matmul(v).unwrap(), &x);
        let [u, _, v] = &parts("linalg_svd", &[tensor(x)])[..] else { panic!() };
        for basis in [u, v] {
            let n = basis.shape()[1];
            let one: Vec<f64> =
                (0..2 * n * n).map(|i| f64::from(u8::from(i % (n * n) % (n + 1) == 0))).collect();
            close(&basis.matmul(&turned(basis)).unwrap(), &Array::from_vec(one, &[2, n, n]).unwrap());
        }
    }
}

#[test]
fn a_matrix_of_rank_one_has_a_pseudo_inverse() {
    let x = Array::from_vec(vec![1.0f64, 2.0, 2.0, 4.0, 3.0, 6.0], &[3, 2]).unwrap();
    assert_eq!(call1("linalg_matrix_rank", &[tensor(x.clone())]).unwrap().to_vec::<i64>().unwrap(), [1]);
    let y = call1("linalg_pinv", &[tensor(x.clone())]).unwrap();
    close(&x.matmul(&y).unwrap().matmul(&x).unwrap(), &x);
    let zero = tensor(Array::zeros(DType::F64, &[2, 3]).unwrap());
    let [u, _, v] = &parts("linalg_svd", &[zero])[..] else { panic!() };
    assert_eq!((u.shape(), v.shape()), (&[2, 2][..], &[3, 3][..]));
}

#[test]
fn eigenvectors_rebuild_a_symmetric_matrix() {
    let x = matrix(2, 5, 5);
    let x = x.add(&turned(&x)).unwrap();
    for triangle in ["L", "U"] {
        let [values, vectors] = &parts("linalg_eigh", &[tensor(x.clone()), Arg::str(triangle)])[..] else {
            panic!()
        };
        let scaled = vectors.mul(&values.unsqueeze(1).unwrap()).unwrap();
        close(&scaled.matmul(&turned(vectors)).unwrap(), &x);
        let sorted = values.to_vec::<f64>().unwrap();
        assert!(sorted[..5].is_sorted() && sorted[5..].is_sorted());
    }
}
