//! Factors of matrices, by what they rebuild.

use fx_core::{Arg, Array};

use crate::testing::{Operand, call, call1, close, matrix, parts, tensor};

#[test]
fn factors_multiply_to_the_matrix() {
    for (m, n) in [(4, 4), (5, 3), (3, 5), (1, 1)] {
        let x = matrix(2, m, n);
        let [p, l, u] = &parts("linalg_lu", &[tensor(x.clone())])[..] else { panic!() };
        close(&p.matmul(&l.matmul(u).unwrap()).unwrap(), &x);
        for mode in ["reduced", "complete"] {
            let [q, r] = &parts("linalg_qr", &[tensor(x.clone()), Arg::str(mode)])[..] else { panic!() };
            close(&q.matmul(r).unwrap(), &x);
        }
    }
}

#[test]
fn systems_are_solved_from_all_sides() {
    let (x, b) = (matrix(1, 4, 4), matrix(3, 4, 2));
    let [lu, pivots] = &parts("linalg_lu_factor", &[tensor(x.clone())])[..] else { panic!() };
    let solve = |b: &Array, left: bool, adjoint: bool| {
        let args = [tensor(lu.clone()), tensor(pivots.clone()), tensor(b.clone())];
        let named = [("left", Arg::Bool(left)), ("adjoint", Arg::Bool(adjoint))];
        let Arg::Leaf(y) = call("linalg_lu_solve", &args, &named).unwrap() else { panic!() };
        y.array().unwrap().clone()
    };
    let turned = x.transpose(1, 2).unwrap();
    close(&x.matmul(&solve(&b, true, false)).unwrap(), &b);
    close(&turned.matmul(&solve(&b, true, true)).unwrap(), &b);
    let c = b.transpose(1, 2).unwrap().contiguous().unwrap();
    close(&solve(&c, false, false).matmul(&x).unwrap(), &c);
    close(&solve(&c, false, true).matmul(&turned).unwrap(), &c);
}

#[test]
fn the_exponential_of_a_rotation_turns() {
    let angle = 7.5f64;
    let x = Array::from_vec(vec![0.0, -angle, angle, 0.0], &[2, 2]).unwrap();
    let expected =
        Array::from_vec(vec![angle.cos(), -angle.sin(), angle.sin(), angle.cos()], &[2, 2]).unwrap();
    close(&call1("linalg_matrix_exp", &[tensor(x)]).unwrap(), &expected);
}

#[test]
fn broken_pivots_are_refused() {
    let x = tensor(matrix(1, 2, 2));
    let pivots = tensor([[0i32, 9]]);
    assert!(call1("linalg_lu_solve", &[x.clone(), pivots.clone(), x.clone()]).is_err());
    assert!(call("lu_unpack", &[x, pivots], &[]).is_err());
}
