package mig

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/each"
)

// Names follow NVIDIA's guide.
func TestNames(t *testing.T) {
	for gigabytes, want := range map[int][]string{
		40: {"1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"},
		80: {"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"},
	} {
		got := each.Map(Profiles(), func(p Profile) string { return p.Name(gigabytes) })
		if !slices.Equal(got, want) {
			t.Errorf("%d GB: %v", gigabytes, got)
		}
	}
}

// However partitions that do not overlap are placed, there are compute slices for all of them. This is why Slices is all that counts.
func TestComputeIsEnough(t *testing.T) {
	most := 0
	var place func(used Slices, compute int)
	place = func(used Slices, compute int) {
		most = max(most, compute)
		for _, p := range Profiles() { // thousandths do not keep a partition out that fits
			if now := Used(compute, used.Len()); p.Fits(used) && now+p.Milli() > 1000 {
				t.Fatalf("%d thousandths are used, and %s takes %d", now, p.Name(40), p.Milli())
			}
		}
		for _, p := range Profiles() {
			for s := range p.Free(used) {
				place(used|p.On(s), compute+p.Compute())
			}
		}
	}
	place(0, 0)
	if most != Compute {
		t.Errorf("%d compute slices are used at most, of %d", most, Compute)
	}
}

// Thousandths identify a profile.
func TestMilli(t *testing.T) {
	for _, p := range Profiles() {
		if got := OfMilli(p.Milli()); got != p {
			t.Errorf("%d thousandths are %s, want %s", p.Milli(), got.Name(40), p.Name(40))
		}
	}
	if Seven.Milli() != 1000 || OfMilli(500) != None || OfMilli(0) != None {
		t.Errorf("7g is %d thousandths", Seven.Milli())
	}
}

// The number of partitions of one profile on a GPU, as in the guide's column of instances.
func TestInstances(t *testing.T) {
	for p, want := range map[Profile]int{One: 7, OneWide: 4, Two: 3, Three: 2, Four: 1, Seven: 1} {
		used, n := Slices(0), 0
		for p.Fits(used) {
			used |= p.On(p.BestStart(used))
			n++
		}
		if n != want {
			t.Errorf("%s: %d, want %d", p.Name(40), n, want)
		}
	}
}

// The first partition of a profile starts where it leaves most: 3g in the upper half, where it wastes no compute slice.
func TestBestStart(t *testing.T) {
	for p, want := range map[Profile]int{One: 6, OneWide: 6, Two: 4, Three: 4, Four: 0, Seven: 0} {
		if got := p.BestStart(0); got != want {
			t.Errorf("%s starts at %d, want %d", p.Name(40), got, want)
		}
	}
	if got := Seven.BestStart(1); got != -1 {
		t.Errorf("7g beside 1g starts at %d", got)
	}
}

// Free starts are those at which nothing is used, and a partition is found again by its slices.
func TestFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		used := Slices(rapid.Uint8().Draw(t, "used"))
		for _, p := range Profiles() {
			n := 0
			for s := range p.Free(used) {
				n++
				if on := p.On(s); on&used != 0 || on.Len() != p.Memory() || Find(on, p.Compute()) != p {
					t.Fatalf("%s at %d beside %08b", p.Name(40), s, used)
				}
			}
			if p.Fits(used) != (n > 0) || (p.BestStart(used) >= 0) != (n > 0) {
				t.Fatalf("%s beside %08b: %d starts", p.Name(40), used, n)
			}
		}
	})
	if Find(0b11, 4) != None || Find(0b110, 2) != None {
		t.Error("a partition that no profile allows has one")
	}
}
