use super::safetensors::File;

fn file(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

#[test]
fn a_tensor_is_read_by_name_type_and_shape() {
    let header = r#"{"__metadata__":{"a":"b"},"x\u00e9":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    let read = File::from_bytes(file(header, &[0, 0, 128, 63, 0, 0, 0, 64])).unwrap();
    assert_eq!(read.elements::<f32>("xé", &[2]).unwrap(), [1.0, 2.0]);
    assert!(read.elements::<f32>("xé", &[1, 2]).unwrap_err().to_string().contains("expected F32[1, 2]"));
    assert!(read.elements::<i32>("xé", &[2]).is_err());
    assert!(read.elements::<f32>("y", &[2]).unwrap_err().to_string().contains("no tensor \"y\""));
}

#[test]
fn damaged_files_are_refused() {
    let good = r#"{"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#;
    assert!(File::from_bytes(file(good, &[1, 2])).is_ok());
    for header in [
        "",
        "{",
        "[]",
        r#"{"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}} x"#,
        r#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,2]}}"#,
        r#"{"x":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}"#,
        r#"{"x":{"dtype":"U8","shape":[2],"data_offsets":[2,0]}}"#,
        r#"{"x":{"dtype":"F64","shape":[18446744073709551615,18446744073709551615],"data_offsets":[0,2]}}"#,
        r#"{"x":{"dtype":"U8","shape":[2]}}"#,
        r#"{"x":{"dtype":"U8","shape":[2],"shape":[2],"data_offsets":[0,2]}}"#,
        r#"{"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"x":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}}"#,
        r#"{"x":{"dtype":"U8","shape":[-2],"data_offsets":[0,2]}}"#,
        r#"{"\ud800":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#,
        r#"{"\q":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#,
        r#"{"x"#,
    ] {
        assert!(File::from_bytes(file(header, &[1, 2])).is_err(), "{header}");
    }
    assert!(File::from_bytes(vec![255; 20]).is_err());
    assert!(File::from_bytes(vec![1, 2]).is_err());
}

#[test]
fn no_change_of_one_byte_panics() {
    let header = r#"{"x":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},"\u00e9":{"dtype":"I64","shape":[],"data_offsets":[4,12]}}"#;
    let good = file(header, &[0; 12]);
    for at in 0..good.len() {
        for byte in [0, b'"', b'\\', b'{', b'9', 0xff] {
            let mut bytes = good.clone();
            bytes[at] = byte;
            let _ = File::from_bytes(bytes);
        }
        let _ = File::from_bytes(good[..at].to_vec());
    }
}
