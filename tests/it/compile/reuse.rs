//! Tensors of a call serve later calls only if nobody else has them.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, Weak};

use fx::compile::compile;
use fx::lazy::{Lazy, Link};
use fx::prelude::*;
use fx::{Array, DType, TensorType};

use super::vector;

#[test]
fn a_tensor_is_renewed_only_if_nobody_else_has_it() {
    let ty = Arc::new(TensorType::new(DType::F32, [2]));
    let mut lazy = Arc::new(Lazy::pending(Arc::<Link>::default(), 1, 0, ty.clone()));
    let other = lazy.clone();
    assert!(!lazy.renew(2, &ty));
    assert_eq!(other.run(), 1);
    drop(other);
    assert!(lazy.renew(2, &ty));
    assert_eq!((lazy.run(), lazy.index()), (2, 0));
    // A value and a type of the run before are gone.
    lazy.set(Ok(Arc::new(Array::scalar(1.0f32))));
    let _ = lazy.force("item", None);
    let scalar = Arc::new(TensorType::new(DType::F32, fx::Shape::default()));
    assert!(lazy.renew(3, &scalar));
    assert!(lazy.known().is_none() && !lazy.was_read());
    assert_eq!(lazy.ty(), &scalar);
}

#[test]
fn tensors_that_outlive_their_calls_keep_their_values() {
    let kept: Mutex<Vec<Tensor>> = Mutex::default();
    let f = compile(|x: &Tensor| {
        let h = x * 2.0;
        let y = (&h + 1.0).relu();
        if y.sum((), false).item::<f32>().is_ok_and(|sum| sum > 0.0) {
            kept.lock().unwrap().push(&h - 1.0);
        }
        kept.lock().unwrap().push(h);
        y
    });
    for n in 1..=12 {
        assert_eq!(f.call(&[vector(&[n as f32])]).unwrap().to_vec::<f32>().unwrap(), [n as f32 * 2.0 + 1.0]);
    }
    let kept: Vec<f32> = kept.lock().unwrap().iter().flat_map(|tensor| tensor.to_vec().unwrap()).collect();
    let expected: Vec<f32> = (1..=12).flat_map(|n| [n as f32 * 2.0 - 1.0, n as f32 * 2.0]).collect();
    assert_eq!(kept, expected);
}

#[test]
fn what_another_thread_drops_is_no_output_and_what_it_keeps_is_one() {
    let f = compile(|x: &Tensor, keeps: bool| {
        let (send, receive) = channel::<Tensor>();
        std::thread::scope(|scope| {
            let other = scope.spawn(move || receive.iter().filter(|_| keeps).collect::<Vec<_>>());
            let h = x * 2.0;
            send.send(h.clone()).unwrap();
            let y = h + 1.0;
            drop(send);
            let kept = other.join().unwrap();
            let sum = y.sum((), false).item::<f32>().unwrap();
            kept.iter().map(|h| h.to_vec::<f32>().unwrap()[0]).sum::<f32>() + sum
        })
    })
    .steady();
    let call = |x: f32, keeps: bool| f.run::<_, f32>((vector(&[x]), keeps)).unwrap();
    for n in 0..4 {
        assert_eq!(call(n as f32, false), n as f32 * 2.0 + 1.0);
    }
    assert_eq!(f.explain().segments[0].outputs, ["add: f32[1]", "sum: f32[]"], "{}", f.explain());
    for n in 0..4 {
        assert_eq!(call(n as f32, true), n as f32 * 4.0 + 1.0);
        assert_eq!(call(n as f32, false), n as f32 * 2.0 + 1.0);
    }
    assert_eq!(f.explain().segments[0].outputs.len(), 3, "{}", f.explain());
}

#[test]
fn a_thread_that_goes_on_after_the_call_has_the_values_of_that_call() {
    let (send, receive) = channel::<(Tensor, f32)>();
    let reader = std::thread::spawn(move || {
        for (tensor, expected) in receive {
            assert_eq!(tensor.to_vec::<f32>().unwrap(), [expected]);
        }
    });
    let f = compile(|x: &Tensor, n: f64| {
        let h = x + n;
        send.send((&h * 2.0, n as f32 * 2.0 + 2.0)).unwrap();
        h.relu().exp()
    });
    for n in 0..200 {
        let result: Tensor = f.run((vector(&[1.0]), f64::from(n % 7))).unwrap();
        let expected = (1.0 + (n % 7) as f32).exp();
        assert!((result.item::<f32>().unwrap() - expected).abs() <= expected * 1e-5);
    }
    drop(f);
    drop(send);
    reader.join().unwrap();
}

#[test]
fn values_of_a_call_are_not_kept_for_the_next_one() {
    let kept: Mutex<Weak<Lazy>> = Mutex::default();
    let f = compile(|x: &Tensor| {
        let h = x * 2.0;
        let sum = h.sum((), false).item::<f32>().unwrap();
        *kept.lock().unwrap() = h.as_lazy().map_or_else(Weak::new, Arc::downgrade);
        sum
    });
    for _ in 0..12 {
        f.run::<_, f32>((vector(&[1.0]),)).unwrap();
        let kept = kept.lock().unwrap().upgrade();
        assert!(kept.is_none_or(|lazy| lazy.known().is_none()));
    }
}

#[test]
fn a_thread_that_reads_a_tensor_of_an_earlier_call_stops_no_recording() {
    let kept: Mutex<Option<Tensor>> = Mutex::default();
    let f = compile(|x: &Tensor| {
        let old = kept.lock().unwrap().replace(x.clone());
        std::thread::scope(|scope| {
            scope.spawn(move || old.map(|old| old.to_vec::<f32>().unwrap())).join().unwrap()
        });
        (x * 2.0).relu() + 1.0
    })
    .pure();
    for x in [vector(&[1.0]), vector(&[1.0]).reshape([1, 1]), vector(&[1.0]).reshape([1, 1, 1])] {
        for _ in 0..3 {
            assert_eq!(f.call(std::slice::from_ref(&x)).unwrap().to_vec::<f32>().unwrap(), [3.0]);
        }
    }
    let told = f.explain().to_string();
    assert!(!told.contains("C11"), "{told}");
}
