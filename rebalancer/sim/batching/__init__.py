"""Language models served request by request: continuous batching, iteration by iteration, compiled.

`Engine` says what a replica can do, `BatchingWorld` plays a scenario with it under any controller.
"""
