package workload

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The words that names consist of: short, lower case and friendly.
var (
	adjectives = strings.Fields(`
		able agile airy alert amber ample azure balmy bold brave breezy bright brisk calm candid
		cheery chilly civic clean clear clever cosy crisp curly daring dapper deep deft dewy
		eager early earnest easy elated epic even fabled fair fancy feisty fleet fluffy fond
		frank free fresh frosty gentle gilded glad golden grand green happy hardy hasty hazy
		honest humble icy ideal jaunty jolly jovial keen kind lanky lively lofty loyal lucid
		lucky mellow merry mighty mild minty misty modest mossy neat nimble noble patient
		placid plucky polite proud quick quiet rapid ready regal robust rosy rustic sandy
		serene sharp shiny silent silver sleek smart snowy snug solid spry stable starry steady
		stout sunny supple swift tidy tranquil trusty upbeat valiant velvet vivid warm wild wise witty`)
	nouns = strings.Fields(`
		acorn alder anchor aspen badger bagel basil beacon beaver beetle bison blossom breeze
		brook cactus canoe canyon carrot cedar cherry chestnut clover comet compass coral cove
		crane cricket crow daisy delta dingo dolphin dune eagle ember falcon fern ferret finch
		fjord forest fox gecko geyser ginger glacier goose grove gull harbor hare harvest hazel
		hedgehog heron hill ibex iris island ivy jackal jaguar juniper kestrel kettle koala
		lagoon lantern lark lemur lichen lily lizard lotus lynx magpie mango maple marmot marten
		meadow melon meteor mole moose moss nettle newt nutmeg oak oasis olive orchid osprey
		otter owl panda pebble pelican penguin pepper pigeon pine plover poplar puffin quail
		rabbit raven reef river robin saffron salmon seal sparrow spruce squirrel stork swan
		teapot thistle thrush tiger tulip turtle walnut walrus willow wombat wren yak zebra`)
)

// drawName draws a name such as brave-otter that is not in taken, and adds it to taken. If
// several draws in a row are taken, it adds a number to the last one.
func drawName(rng *rand.Rand, taken map[string]bool) string {
	const draws = 8
	var name string
	for range draws {
		name = adjectives[rng.IntN(len(adjectives))] + "-" + nouns[rng.IntN(len(nouns))]
		if !taken[name] {
			taken[name] = true
			return name
		}
	}
	name = FreeName(name, taken)
	taken[name] = true
	return name
}

// FreeName returns name if it is not in taken, else name with the lowest number from 2 that
// makes it free: web, web-2, web-3. It does not add the name to taken.
func FreeName(name string, taken map[string]bool) string {
	free := name
	for i := 2; taken[free]; i++ {
		free = fmt.Sprintf("%s-%d", name, i)
	}
	return free
}
