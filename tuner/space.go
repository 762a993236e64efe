package tuner

import (
	"fmt"
	"strconv"
)

// distinct keeps values in the order of their first appearance.
type distinct struct{ values []string }

func (d *distinct) add(v string) {
	for _, have := range d.values {
		if have == v {
			return
		}
	}
	d.values = append(d.values, v)
}

// sorted orders numeric values by size.
func (d *distinct) sorted() []string {
	var numbers []int
	for _, v := range d.values {
		n := number(v)
		if n == 0 {
			continue
		}
		numbers = insert(numbers, n)
	}
	return append([]string{"0"}, texts(numbers)...)
}

func texts(numbers []int) []string {
	list := make([]string, len(numbers))
	for i, n := range numbers {
		list[i] = strconv.Itoa(n)
	}
	return list
}

// number reads a numeric knob value.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(fmt.Sprintf("tuner: knob value %q is no number", text))
	}
	return n
}
