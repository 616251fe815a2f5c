package shadow

import "testing"

type value float64

func (v value) Plus(o value) value { return (v + o) / 2 }

func number(v value) float64 { return float64(v) }

// Blocks that depend on the one before are joined; independent ones are not.
func TestJoin(t *testing.T) {
	var slow, fast, rising, same []value
	for i := range 512 {
		slow = append(slow, value(i/8%2))
		fast = append(fast, value(i*i%7))
		rising = append(rising, value(i))
		same = append(same, 3)
	}
	for _, c := range []struct {
		name        string
		list        []value
		least, most int
		independent bool
	}{
		{"independent", fast, 512, 512, true},
		{"dependent", slow, Min, 128, true},
		{"a trend never becomes independent", rising, Min, 2*Min - 1, false},
		{"constant", same, 512, 512, true},
	} {
		list, lag := JoinBlocks(c.list, number)
		if len(list) < c.least || len(list) > c.most || (lag <= MaxLag) != c.independent {
			t.Errorf("%s: %d blocks, correlation %v", c.name, len(list), lag)
		}
	}
}

func TestPairs(t *testing.T) {
	if got := pairBlocks([]value{1, 3, 5, 7, 100}); len(got) != 2 || got[0] != 2 || got[1] != 6 {
		t.Errorf("%v", got)
	}
}
