module rebalancer.test/pieces/compose-spec

go 1.26.0

require github.com/compose-spec/compose-go/v2 v2.9.0
