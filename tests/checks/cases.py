"""The small models of the proof, and their meshes: uneven vocabularies, grouped heads, tied embeddings, packed experts."""

FAMILIES = {
    "llama": {},
    "qwen2": {"tie_word_embeddings": True},
    "qwen3": {},
    "gemma": {},
    "mistral": {"vocab_size": 33},
    "phi3": {},
    "granite": {},
    "olmo2": {},
    "mixtral": {"num_local_experts": 4},
    "qwen3_moe": {
        "num_experts": 4,
        "moe_intermediate_size": 24,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
    },
    "deepseek_v3": {
        "n_routed_experts": 4,
        "moe_intermediate_size": 24,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "first_k_dense_replace": 0,
        "q_lora_rank": 8,
        "kv_lora_rank": 8,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 4,
        "v_head_dim": 4,
        "num_key_value_heads": 4,
    },
    "gpt_oss": {"num_local_experts": 4, "num_experts_per_tok": 2, "layer_types": ["full_attention"]},
    "gemma3_text": {"vocab_size": 33},
    "cohere": {},
    "starcoder2": {},
    "smollm3": {"vocab_size": 33},
}
"""By family, what makes it small beside what all have (`real_models.SMALL`): 16 wide, 4 heads, 2 for keys, 19 words."""

MESHES = ({"fsdp": 2, "tp": 2}, {"fsdp": 3, "tp": 2}, {"fsdp": 2, "tp": 3})

GRID = [{"family": family, "config": config, "mesh": mesh} for mesh in MESHES for family, config in FAMILIES.items()]

MORE = [
    # An empty part of the vocabulary: its rank raises, and the others wait.
    {"family": "llama", "config": {"vocab_size": 5, "num_key_value_heads": 4}, "mesh": {"fsdp": 1, "tp": 4}},
    {"family": "llama", "config": {"vocab_size": 5, "num_key_value_heads": 4}, "mesh": {"fsdp": 2, "tp": 4}},
    # Rank 2 of tp has a whole head, and waits for those that have not.
    {"family": "llama", "config": {"num_key_value_heads": 4}, "mesh": {"fsdp": 2, "tp": 3}},
    {"family": "llama", "config": {"vocab_size": 33}, "mesh": {"fsdp": 4, "tp": 2}},
    {"family": "qwen2", "config": {"vocab_size": 24, "num_key_value_heads": 4}, "mesh": {"fsdp": 3, "tp": 2}},
    # Experts: whole ones over ep, and ranks that hold none.
    {"family": "mixtral", "config": {"num_local_experts": 4}, "mesh": {"fsdp": 2, "tp": 2, "ep": 2}},
    {"family": "mixtral", "config": {"num_local_experts": 6}, "mesh": {"fsdp": 4, "tp": 1, "ep": 2}},
    {"family": "mixtral", "config": {"num_local_experts": 2, "num_experts_per_tok": 1}, "mesh": {"fsdp": 4, "tp": 1, "ep": 2}},
    {"family": "gpt_oss", "config": FAMILIES["gpt_oss"], "mesh": {"fsdp": 2, "tp": 2, "ep": 2}},
    {"family": "qwen3_moe", "config": FAMILIES["qwen3_moe"], "mesh": {"fsdp": 2, "tp": 2, "ep": 4}},
    {
        "family": "gpt_oss",
        "config": {**FAMILIES["gpt_oss"], "vocab_size": 24, "num_key_value_heads": 4},
        "mesh": {"fsdp": 3, "tp": 2},
    },
    {
        "family": "mixtral",
        "config": {"num_local_experts": 4, "vocab_size": 24, "num_key_value_heads": 4},
        "mesh": {"fsdp": 3, "tp": 2},
    },
    # 6 of 12 columns are 24 bytes, and grouped matrix products want multiples of 16.
    {"family": "qwen3_moe", "config": {**FAMILIES["qwen3_moe"], "moe_intermediate_size": 12}, "mesh": {"fsdp": 2, "tp": 2}},
]
