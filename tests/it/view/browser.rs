//! The page in a real browser: `$FX_CHROMIUM`, or Chromium or Chrome in the path. Without one these tests say
//! so and pass.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{hostile, parse, program, with_passes};

const NAMES: [&str; 5] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
const SIZE: (usize, usize) = (1400, 900);

/// Returns the browser, or says that there is none.
fn browser() -> Option<PathBuf> {
    let given = std::env::var_os("FX_CHROMIUM").filter(|path| !path.is_empty()).map(PathBuf::from);
    let in_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .flat_map(|dir| NAMES.map(|name| dir.join(name)))
            .find(|file| file.is_file())
    };
    let found = given.or_else(in_path);
    if found.is_none() {
        let test = std::thread::current().name().unwrap_or("a test of the page").to_owned();
        crate::skipped(
            &format!("{test}: the page was not drawn, for there is no browser"),
            "install Chromium or Chrome, or set FX_CHROMIUM to the path of one",
        );
    }
    found
}

/// Runs the browser on a page with its own profile; returns what it printed.
fn run(browser: &Path, dir: &Path, page: &str, fragment: &str, args: &[&str]) -> String {
    let file = dir.join("page.html");
    std::fs::write(&file, page).unwrap();
    let mut child = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--hide-scrollbars",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--virtual-time-budget=5000",
        ])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("--window-size={},{}", SIZE.0, SIZE.1))
        .args(args)
        .arg(format!("file://{}{fragment}", file.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    wait(&mut child);
    reader.join().unwrap().unwrap()
}

/// Waits for the browser, which would otherwise hang the tests where it hangs.
fn wait(child: &mut Child) {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
            panic!("the browser did not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn folder(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("view").join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// What the page has become: the attributes of its elements, by the beginning of their tags.
struct Dom(String);

impl Dom {
    fn new(browser: &Path, name: &str, page: &str, fragment: &str) -> Dom {
        let dom = Dom(run(browser, &folder(name), page, fragment, &["--dump-dom"]));
        let html = dom.tags("<html").next().expect("the page has been dumped");
        assert_eq!(
            (attribute(html, "data-ready"), attribute(html, "data-errors")),
            (Some("true"), None),
            "{name}"
        );
        dom
    }

    /// Returns the tags that begin so.
    fn tags<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.match_indices(start).map(|(i, _)| self.0[i..].split('>').next().unwrap())
    }

    /// Returns the boxes of nodes and folded modules: left, top, right, bottom.
    fn boxes(&self) -> Vec<[f64; 4]> {
        let number = |tag: &str, name: &str| attribute(tag, name).unwrap().parse::<f64>().unwrap();
        self.tags("<rect class=\"card\"")
            .map(|tag| {
                let (x, y) = (number(tag, "x"), number(tag, "y"));
                [x, y, x + number(tag, "width"), y + number(tag, "height")]
            })
            .collect()
    }
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()
}

#[test]
fn a_browser_lays_out_every_node_and_no_two_boxes_overlap() {
    let Some(browser) = browser() else { return };
    for name in ["cond_nested", "chain", "while_l"] {
        let gm = program(name);
        let dom = Dom::new(&browser, name, &fx::view::html(&gm), "");
        for (_, node) in gm.graph().nodes().filter(|(_, node)| node.opcode() != fx::OpCode::GetAttr) {
            let key = format!("data-key=\"{}\"", node.name());
            assert!(dom.0.contains(&key), "{name}: %{} is neither drawn nor in the outline", node.name());
        }
        let boxes = dom.boxes();
        assert!(boxes.len() >= 5, "{name}: {boxes:?}");
        for (i, a) in boxes.iter().enumerate() {
            for b in &boxes[..i] {
                let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
                assert!(apart, "{name}: {a:?} overlaps {b:?}");
            }
        }
        let edges = dom.tags("<path class=\"edge\"").next().and_then(|tag| attribute(tag, "d")).unwrap();
        assert!(edges.matches('M').count() >= 4, "{name}: {edges}");
    }
    let dom = Dom::new(&browser, "nested", &fx::view::html(&program("cond_nested")), "");
    assert!(
        dom.0.contains("data-key=\"cond/true_graph_0/cond/false_graph_0/sub\""),
        "sub-graphs stand in their nodes"
    );
}

#[test]
fn a_link_selects_a_node_and_a_step() {
    let Some(browser) = browser() else { return };
    let (page, data) = with_passes(&program("composed"), "normalize, simplify, cse, dead_code");
    let last = data["steps"].as_array().unwrap().len();
    let dom = Dom::new(&browser, "link", &page, &format!("#node=output&step={last}"));
    assert!(dom.0.contains("class=\"outline selected\""));
    assert!(dom.0.contains("<h2>%output</h2>"), "the details are those of the node");
    assert!(
        dom.tags(&format!("<button data-step=\"{last}\""))
            .any(|tag| attribute(tag, "aria-current") == Some("step"))
    );
    assert!(dom.0.contains("id=\"diff\""));
}

#[test]
fn a_browser_takes_hostile_text_for_text() {
    let Some(browser) = browser() else { return };
    let page = fx::view::html(&hostile());
    for fragment in [
        "",
        "#node=y",
        "#node=__proto__&step=99",
        "#node=</script><script>document.documentElement.dataset.owned=1</script>",
    ] {
        let dom = Dom::new(&browser, "hostile", &page, fragment);
        let html = dom.tags("<html").next().unwrap();
        assert_eq!(attribute(html, "data-owned"), None, "{fragment}");
        assert!(dom.0.contains("&lt;/script&gt;&lt;script&gt;"), "the text is there, as text");
        assert!(dom.boxes().len() >= 4);
    }
}

#[test]
fn a_report_of_compiled_functions_shows_text_of_programs_as_text() {
    let Some(browser) = browser() else { return };
    let evil = "</script><script>document.documentElement.dataset.owned=1</script>";
    let event = serde_json::json!({
        "version": 1, "function": evil, "compiled_at": evil, "event": "miss", "call": 1,
        "reason": evil, "at": evil, "outcome": "recorded s0",
    });
    let page = fx::compile::report_page(&event.to_string()).unwrap();
    let dom = Dom::new(&browser, "report", &page, "");
    assert_eq!(attribute(dom.tags("<html").next().unwrap(), "data-owned"), None);
    assert!(dom.0.contains("1 function, 1 event") && dom.0.contains("recorded s0"));
}

#[test]
fn thousands_of_nodes_stay_usable() {
    let Some(browser) = browser() else { return };
    let mut text = String::from("graph main(%n0: f32[8], %n1: f32[8]) -> f32[8] {\n");
    for i in 2..5000 {
        let stack = format!("stack: [(\"layers.{}\", \"Block\", 0)]", i / 100);
        text += &format!("  %n{i}: f32[8] = add(%n{}, %n{}) #{{{stack}}}\n", i - 1, (i * 7919) % (i - 1));
    }
    text += "  return %n4999\n}\n";
    let dom = Dom::new(&browser, "large", &fx::view::html(&parse(&text)), "#node=n2500");
    let svg = dom.tags("<svg id=\"graph\"").next().unwrap();
    let count = |name: &str| attribute(svg, name).unwrap().parse::<usize>().unwrap();
    assert!(count("data-boxes") >= 100 && count("data-drawn") < count("data-boxes"), "{svg}");
    assert!(dom.0.contains("<h2>%n2500</h2>"), "the module that it is in has been unfolded");
    assert!(dom.boxes().len() > 5);
}

#[test]
fn the_picture_has_the_colours_of_the_families() {
    let Some(browser) = browser() else { return };
    let dir = folder("picture");
    let shot = dir.join("shot.png");
    run(
        &browser,
        &dir,
        &fx::view::html(&program("chain")),
        "",
        &[&format!("--screenshot={}", shot.display())],
    );
    let picture = Picture::decode(&std::fs::read(&shot).unwrap());
    assert!(picture.width >= 1000 && picture.height >= 600, "{} x {}", picture.width, picture.height);
    let colours: std::collections::HashSet<[u8; 3]> = picture.pixels.iter().copied().collect();
    assert!(colours.len() > 50, "{} colours", colours.len());
    // The strip at the left of each box, in the middle of the page, where no legend is.
    let stage = |x: usize| (300..1050).contains(&x);
    let of_family = |wanted: [u8; 3]| {
        (0..picture.pixels.len()).filter(|i| stage(i % picture.width) && picture.pixels[*i] == wanted).count()
    };
    assert!(of_family([0x3b, 0x7d, 0xe0]) > 60, "the strips of inputs and the output");
    assert!(of_family([0x3f, 0x9d, 0x6b]) > 60, "the strips of pointwise operations");
}

/// A decoded PNG of eight bits for each colour.
struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<[u8; 3]>,
}

impl Picture {
    fn decode(file: &[u8]) -> Picture {
        let (mut width, mut height, mut channels) = (0, 0, 0);
        let mut packed = Vec::new();
        let mut rest = file.strip_prefix(b"\x89PNG\r\n\x1a\n").expect("a PNG");
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
        while rest.len() >= 12 {
            let (length, kind) = (number(rest), &rest[4..8]);
            let chunk = &rest[8..8 + length];
            match kind {
                b"IHDR" => {
                    (width, height) = (number(chunk), number(&chunk[4..]));
                    channels = match (chunk[8], chunk[9]) {
                        (8, 2) => 3,
                        (8, 6) => 4,
                        other => panic!("a PNG of another kind: {other:?}"),
                    };
                }
                b"IDAT" => packed.extend_from_slice(chunk),
                _ => {}
            }
            rest = &rest[length + 12..];
        }
        let mut bytes = Vec::new();
        flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        let stride = width * channels;
        let mut above = vec![0; stride];
        let mut pixels = Vec::new();
        for row in bytes.chunks_exact(stride + 1) {
            let mut line = row[1..].to_vec();
            for i in 0..stride {
                let left = if i >= channels { line[i - channels] } else { 0 };
                let corner = if i >= channels { above[i - channels] } else { 0 };
                let predicted = match row[0] {
                    0 => 0,
                    1 => left,
                    2 => above[i],
                    3 => ((u16::from(left) + u16::from(above[i])) / 2) as u8,
                    _ => paeth(left, above[i], corner),
                };
                line[i] = line[i].wrapping_add(predicted);
            }
            pixels.extend(line.chunks_exact(channels).map(|pixel| [pixel[0], pixel[1], pixel[2]]));
            above = line;
        }
        Picture { width, height, pixels }
    }
}

fn paeth(left: u8, above: u8, corner: u8) -> u8 {
    let guess = i16::from(left) + i16::from(above) - i16::from(corner);
    let far = |x: u8| (guess - i16::from(x)).abs();
    if far(left) <= far(above) && far(left) <= far(corner) {
        left
    } else if far(above) <= far(corner) {
        above
    } else {
        corner
    }
}
