//go:build browser

package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// measure is added to a copy of the page. It writes what the browser made of the page into the page itself.
const measure = `<script>
addEventListener("load", () => {
  const box = e => { const r = e.getBoundingClientRect(); return {X: r.left + scrollX, Y: r.top + scrollY, W: r.width, H: r.height}; };
  const figures = [...document.querySelectorAll("figure")].map(f => {
    const svg = f.querySelector("svg"), texts = [...svg.querySelectorAll("text")];
    const inside = box(svg), out = texts.filter(e => { const t = box(e); return t.X < inside.X - 1 || t.Y < inside.Y - 1 || t.X + t.W > inside.X + inside.W + 1 || t.Y + t.H > inside.Y + inside.H + 1; }).map(e => e.textContent);
    const boxes = texts.filter(t => !t.closest("[transform*=rotate]")).map(t => ({t: t.textContent, r: t.getBoundingClientRect()})), over = [];
    for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
      const a = boxes[i].r, b = boxes[j].r;
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2) over.push(boxes[i].t + " / " + boxes[j].t);
    }
    return {Name: f.id, Box: inside, Paths: [...svg.querySelectorAll("path")].filter(p => { const b = p.getBBox(); return b.width > 0 || b.height > 0; }).length,
      Titles: svg.querySelectorAll("path > title").length, Smallest: Math.min(...texts.map(t => parseFloat(getComputedStyle(t).fontSize) * inside.W / svg.viewBox.baseVal.width)), Clipped: out, Overlaps: over};
  });
  const result = document.createElement("pre");
  result.id = "measured";
  result.textContent = JSON.stringify({Width: document.documentElement.scrollWidth, Window: innerWidth, Height: document.documentElement.scrollHeight,
    Loaded: performance.getEntriesByType("resource").map(e => e.name), Background: getComputedStyle(document.body).backgroundColor, Figures: figures});
  document.body.append(result);
});
</script>`

// measured is what measure finds out.
type measured struct {
	Width, Window, Height int
	Loaded                []string
	Background            string
	Figures               []measuredFigure
}

type measuredFigure struct {
	Name          string
	Box           struct{ X, Y, W, H float64 }
	Paths, Titles int
	Smallest      float64  // text, in pixels
	Clipped       []string // texts that leave the plot
	Overlaps      []string
}

// chromium runs the browser and returns what it wrote to stdout.
func chromium(t *testing.T, args ...string) []byte {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("NOT TESTED: %v; make deps installs it", err)
	}
	// As root, in a container, there is no sandbox; the page is our own.
	args = append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr", "--user-data-dir=" + t.TempDir()}, args...)
	cmd := exec.CommandContext(t.Context(), path, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	for _, line := range strings.Split(stderr.String(), "\n") {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("the console says: %s", line)
		}
	}
	return stdout.Bytes()
}

// TestBrowser opens a real report in a browser, wide and narrow, light and dark, and looks at it.
func TestBrowser(t *testing.T) {
	dir := t.TempDir()
	var page bytes.Buffer
	r := played(t, experiment(t))
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	original, copied := filepath.Join(dir, "report.html"), filepath.Join(dir, "measured.html")
	for name, text := range map[string][]byte{original: page.Bytes(), copied: bytes.Replace(page.Bytes(), []byte("</body>"), []byte(measure+"</body>"), 1)} {
		if err := os.WriteFile(name, text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, f := range r.Figures() {
		names = append(names, f.Name)
	}
	for _, view := range []struct {
		name       string
		width      int
		scheme     string
		background string
	}{
		{"wide", 1280, "1", "rgb(255, 255, 255)"},
		{"dark", 1280, "0", "rgb(22, 24, 27)"},
		{"narrow", 520, "1", "rgb(255, 255, 255)"},
	} {
		t.Run(view.name, func(t *testing.T) {
			scheme := "--blink-settings=preferredColorScheme=" + view.scheme
			dom := chromium(t, scheme, fmt.Sprintf("--window-size=%d,2000", view.width), "--dump-dom", "file://"+copied)
			found := regexp.MustCompile(`(?s)<pre id="measured">(.*?)</pre>`).FindSubmatch(dom)
			if found == nil {
				t.Fatalf("the page was not measured; the DOM ends:\n%s", dom[max(0, len(dom)-500):])
			}
			var m measured
			if err := json.Unmarshal([]byte(html.UnescapeString(string(found[1]))), &m); err != nil {
				t.Fatal(err)
			}
			if m.Width > m.Window || len(m.Loaded) > 0 || m.Background != view.background {
				t.Errorf("page of %d pixels in a window of %d, loaded %q, background %s; want no overflow, nothing, %s", m.Width, m.Window, m.Loaded, m.Background, view.background)
			}
			var got []string
			for _, f := range m.Figures {
				got = append(got, f.Name)
				f.check(t)
			}
			if diff := cmp.Diff(names, got); diff != "" {
				t.Errorf("plots (-want +got):\n%s", diff)
			}
			shot := filepath.Join(dir, view.name+".png")
			chromium(t, scheme, fmt.Sprintf("--window-size=%d,%d", view.width, m.Height), "--screenshot="+shot, "file://"+original)
			checkShot(t, shot, m)
		})
	}
}

// check wants a plot that is to be seen and read.
func (f measuredFigure) check(t *testing.T) {
	t.Helper()
	if f.Box.W < 150 || f.Box.H < 80 || f.Paths < 10 || f.Titles < 2 {
		t.Errorf("%s: %.0f x %.0f pixels, %d lines and areas, %d titles; want a plot", f.Name, f.Box.W, f.Box.H, f.Paths, f.Titles)
	}
	if f.Smallest < 7 || len(f.Clipped) > 0 || len(f.Overlaps) > 0 {
		t.Errorf("%s: text of %.1f pixels, cut off: %q, overlapping: %q; want all readable", f.Name, f.Smallest, f.Clipped, f.Overlaps)
	}
}

// checkShot wants more in the picture of each plot than its paper.
func checkShot(t *testing.T, name string, m measured) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	img, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range m.Figures {
		// A plot wider than the window scrolls: what is seen of it counts.
		area := image.Rect(int(f.Box.X), int(f.Box.Y), min(int(f.Box.X+f.Box.W), m.Window), int(f.Box.Y+f.Box.H))
		if !area.In(img.Bounds()) {
			t.Errorf("%s: %v is not in the picture of %v", f.Name, area, img.Bounds())
			continue
		}
		colours := map[any]int{}
		for y := area.Min.Y; y < area.Max.Y; y++ {
			for x := area.Min.X; x < area.Max.X; x++ {
				colours[img.At(x, y)]++
			}
		}
		most := 0
		for _, n := range colours {
			most = max(most, n)
		}
		if len(colours) < 20 || most == area.Dx()*area.Dy() {
			t.Errorf("%s: %d colours in the picture; want a plot", f.Name, len(colours))
		}
	}
}
