#!/bin/sh
# generate.sh GENERATOR FILE: runs ./GENERATOR and moves its output to ../FILE only once it is whole, because a
# generator that fails has already truncated its output.
set -eu
cd "$(dirname "$0")"
mkdir -p .out
go run "./$1" -out ".out/$2"
mv ".out/$2" "../$2"
