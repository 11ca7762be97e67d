// Evaluates admission policies as the API server does, with its own library: same functions, same optional types.
//
// In: JSON on standard input, a list of {variables: [[name, expression]...], validations: [expression...], input: {object, oldObject, request}}.
// Out: JSON, for each a list with "true", "false" or "error: ..." by validation.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

type question struct {
	Variables   [][2]string
	Validations []string
	Input       map[string]any
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Env(environment.NewExpressions)
	if err != nil {
		return err
	}
	var known []cel.EnvOption
	for _, name := range []string{"object", "oldObject", "request", "variables"} {
		known = append(known, cel.Variable(name, cel.DynType))
	}
	if env, err = env.Extend(known...); err != nil {
		return err
	}
	var questions []question
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		return err
	}
	answers := make([][]string, len(questions))
	for i, each := range questions {
		answers[i] = answer(env, each)
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

func answer(env *cel.Env, asked question) []string {
	variables := map[string]any{}
	input := map[string]any{"variables": variables}
	for name, value := range asked.Input {
		input[name] = value
	}
	for _, variable := range asked.Variables {
		// One that fails is missing: whatever asks for it fails, as in the API server.
		if value, err := evaluate(env, variable[1], input); err == nil {
			variables[variable[0]] = value
		}
	}
	said := make([]string, len(asked.Validations))
	for i, expression := range asked.Validations {
		value, err := evaluate(env, expression, input)
		if said[i] = fmt.Sprint(value); err != nil {
			said[i] = "error: " + err.Error()
		}
	}
	return said
}

func evaluate(env *cel.Env, expression string, input map[string]any) (any, error) {
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	program, err := env.Program(ast)
	if err != nil {
		return nil, err
	}
	value, _, err := program.Eval(input)
	if err != nil {
		return nil, err
	}
	return value.Value(), nil
}
