//go:build cgo

package main

import (
	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/recover"
)

type request struct {
	User  string   `json:"user"`
	Items []string `json:"items"`
}

type answer struct {
	Scores []float64 `json:"scores"`
}

func app(model *predictor) *fiber.App {
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Use(recover.New())
	app.Get("/health", func(c *fiber.Ctx) error { return c.SendString("ok") })
	app.Post("/predict", model.answer)
	return app
}

func (p *predictor) answer(c *fiber.Ctx) error {
	var in request
	if err := c.BodyParser(&in); err != nil {
		return c.Status(fiber.StatusBadRequest).SendString(err.Error())
	}
	if len(in.Items) == 0 {
		return c.Status(fiber.StatusBadRequest).SendString("no items")
	}
	scores, err := p.predict(c.Context(), in.Items)
	if err != nil {
		return c.Status(fiber.StatusInternalServerError).SendString(err.Error())
	}
	return c.JSON(answer{scores})
}
