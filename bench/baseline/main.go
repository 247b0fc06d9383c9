// Command baseline is the server that weir is measured against: a recommendation feed in the way
// most teams would write it first, on fiber with a Go map of slices and a sync.Map of positions.
//
// It is a fair copy of a published system's design in our own words, with that design's price and
// its faults left in, because they are part of what is compared: two requests of one user at the
// same time get the same items (the position is loaded, then stored), positions are lost at exit,
// lists cannot be replaced, and every request copies its user's whole list out of the store. Its gauge
// of users without items left, logged every few seconds, is left out: that makes it cheaper.
//
// The lists are made up at start instead of read from a file: --users users with --items random
// ids up to --max-item each, in slices of their own on the heap, as a decoder would leave them.
// Starting is therefore faster than the real thing and is not compared. It prints "listening on
// ADDRESS" once it is ready.
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"strconv"

	"github.com/gofiber/fiber/v2"
)

const defaultSize = 10

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to serve on")
	users := flag.Uint("users", 5_000_000, "number of users, whose ids are 0 to users-1")
	items := flag.Int("items", 200, "items in a user's list")
	maxItem := flag.Uint("max-item", 10_000_000, "largest item id")
	seed := flag.Uint64("seed", 1, "seed of the random lists")
	flag.Parse()
	if err := serve(*listen, uint32(*users), *items, uint32(*maxItem), *seed); err != nil {
		log.Fatal("baseline: ", err)
	}
}

func serve(listen string, users uint32, items int, maxItem uint32, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	golden := make([]uint32, 50)
	for i := range golden {
		golden[i] = 1 + rng.Uint32N(maxItem)
	}
	service := &recommender{
		feeds:  newMemoryFeeds(rng, users, items, maxItem),
		golden: golden,
		record: func(err error) { log.Print(err) },
	}

	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Get("/feed/:userId", service.handle)
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Println("listening on", ln.Addr())
	return app.Listener(ln)
}

// handle answers GET /feed/:userId?size=N with a JSON array of the user's next N items.
func (r *recommender) handle(c *fiber.Ctx) error {
	userID, err := strconv.ParseUint(c.Params("userId"), 10, 32)
	if err != nil {
		return c.Status(fiber.StatusUnprocessableEntity).SendString("user id is not a number")
	}
	size := uint8(c.QueryInt("size", defaultSize)) // 256 wraps to 0, as in the original
	items, err := r.next(uint32(userID), int(size))
	if err != nil {
		return c.Status(fiber.StatusInternalServerError).SendString(err.Error())
	}
	return c.JSON(items)
}
