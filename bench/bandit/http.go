package main

import (
	"sync/atomic"

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

// service answers requests by a predictor, once there is one.
type service struct {
	model atomic.Pointer[predictor]
}

func (s *service) ready(p *predictor) { s.model.Store(p) }

func (s *service) app() *fiber.App {
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Use(recover.New())
	app.Get("/health", s.health)
	app.Post("/predict", s.predict)
	return app
}

func (s *service) health(c *fiber.Ctx) error {
	if s.model.Load() == nil {
		return c.Status(fiber.StatusServiceUnavailable).SendString("the model is not loaded")
	}
	return c.SendString("ok")
}

func (s *service) predict(c *fiber.Ctx) error {
	model := s.model.Load()
	if model == nil {
		return c.Status(fiber.StatusServiceUnavailable).SendString("the model is not loaded")
	}
	var in request
	if err := c.BodyParser(&in); err != nil {
		return c.Status(fiber.StatusBadRequest).SendString(err.Error())
	}
	if len(in.Items) == 0 {
		return c.Status(fiber.StatusBadRequest).SendString("no items")
	}
	scores, err := model.predict(c.Context(), in.Items)
	if err != nil {
		return c.Status(fiber.StatusInternalServerError).SendString(err.Error())
	}
	return c.JSON(answer{scores})
}
